"""Part of the suites in virtual machines, over Soft-RoCE: verbs, on the kernel's own RDMA stack (docs/testing.md)."""
import random
import sys
import unittest

from machine import VERBS, Machines

CARD = """
ip link add card type dummy
ip address add 10.9.0.1/24 dev card
ip link set card up
rdma link add rxe0 type rxe netdev card
"""


class OneMachine(unittest.TestCase):
    """A machine with an RDMA card, and processes on it that reach each other through the card alone."""

    def passes(self, suite, divisor, leaving_out=""):
        with Machines() as machines:
            command = f"FARSIDE_TEST_DIVISOR={divisor} build/release/bin/{suite} --gtest_filter=-{leaving_out}"
            machines.start("alone", CARD + VERBS + command)
            outcome = machines.wait("alone", 400)
            self.assertEqual(outcome.code, 0, outcome.output)

    def test_memory_model(self):
        self.passes("fabric_litmus_test", divisor=50)

    def test_fabric(self):
        # Soft-RoCE leaves queue pairs behind.
        self.passes("fabric_conformance_test", divisor=20, leaving_out="SetUp.ComingAndGoingLeavesNothingBehind")


# Both machines see the files through a file system whose name says that it is one and the same on all hosts, and which
# counts what it is asked for on each.
TOGETHER = """
wait_for() { until [ -e "/shared/$1" ]; do sleep 0.2; done; }
read_file() { farside exec --under /tmp/files -- cmp "/tmp/files/$1" "/shared/files/$1"; }
bytes_asked_for() { python3 -c 'import os; print(os.getxattr("/tmp/files", "user.bytes_read").decode())'; }
export PATH=$PWD/build/release/bin:$PATH
(umask 077; cp /shared/secret /tmp/secret)
mkdir /tmp/files
counting_fs /shared/files /tmp/files -o fsname=server:/files,subtype=sshfs &
until mountpoint -q /tmp/files; do sleep 0.2; done
touch "/shared/$(hostname)-is-up"
wait_for first-is-up; wait_for second-is-up
pool="--nodes 2 --cache 64M --secret /tmp/secret"
"""


def joined_by_cable(address):
    return f"""
ip address add {address}/24 dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
"""


class TwoMachines(unittest.TestCase):
    """Two kernels, joined by a cable."""

    def test_a_pool_spans_both_and_outlives_one(self):
        with Machines() as machines:
            (machines.shared / "secret").write_bytes(b"s" * 32)
            (machines.shared / "files").mkdir()
            for seed, name in enumerate(["read-by-both", "read-by-second"]):
                (machines.shared / "files" / name).write_bytes(random.Random(seed).randbytes(2 << 20))
            machines.start("first", joined_by_cable("10.9.0.1") + VERBS + TOGETHER + """
farside up $pool --listen 10.9.0.1:7777
read_file read-by-both
touch /shared/first-has-read
wait_for second-is-dead
read_file read-by-both
read_file read-by-second
""", cable="server")
            machines.start("second", joined_by_cable("10.9.0.2") + VERBS + TOGETHER + """
farside up $pool --join 10.9.0.1:7777 --first-rank 1
wait_for first-has-read
read_file read-by-both
[ "$(bytes_asked_for)" -eq 0 ]  # it came from the other machine
read_file read-by-second
touch /shared/second-has-read
sleep infinity
""", cable="client")
            machines.wait_for("second-has-read", 200)
            machines.kill("second")
            (machines.shared / "second-is-dead").touch()
            outcome = machines.wait("first", 200)
            self.assertEqual(outcome.code, 0, outcome.output)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"test-vm: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed != 0)
