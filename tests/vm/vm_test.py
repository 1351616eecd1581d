"""Part of the suites in virtual machines, over Soft-RoCE: verbs, on the kernel's own RDMA stack (docs/testing.md)."""
import random
import sys
import unittest

from machine import VERBS, Machines, accelerator

CARD = """
ip link add card type dummy
ip address add 10.9.0.1/24 dev card
ip link set card up
rdma link add rxe0 type rxe netdev card
"""


class OneMachine(unittest.TestCase):
    """A machine with an RDMA card, and processes on it that reach each other through the card alone."""

    def passes(self, suite, divisor=2, only="*"):
        with Machines() as machines:
            command = f"FARSIDE_TEST_DIVISOR={divisor} build/release/bin/{suite} --gtest_filter='{only}'"
            machines.start("alone", CARD + VERBS + command)
            [output] = machines.outputs("alone")
            self.assertRegex(output, r"PASSED  \] [1-9]")
            self.assertNotIn("SKIPPED", output)

    def test_memory_model(self):
        self.passes("fabric_litmus_test", divisor=50)

    def test_fabric(self):
        # Soft-RoCE leaves queue pairs behind.
        self.passes("fabric_conformance_test", divisor=20, only="-SetUp.ComingAndGoingLeavesNothingBehind")

    def test_cache(self):
        # Smaller it does not get, but more patient.
        self.passes("cache_test", only="-*Rules.*")

    def test_team(self):
        # What needs few processes: each takes seconds to make UCX ready here, and a team has half a minute to form.
        only = "Run.SurvivesLateOperationsOnFreedMemory:Team.RefusesAllocationsThatDiffer"
        self.passes("team_test", only=only)

    def test_comm(self):
        # Each primitive once, among few processes.
        only = ["*BarrierSizes*/2", "ArrivalCounter.EndsAnEpoch*", "*BroadcastSizes*/2", "*Collective.*/3", "Requests.*",
                "*CopySizes*/4", "Notices.*", "Parts.*", "Atomics.*", "Messages.ArriveWhole", "*RendezvousSizes*/3"]
        self.passes("comm_test", only=":".join(only))

    def test_arrays(self):
        # Each operation between two processes.
        self.passes("arrays_test", only="*Between.*/1")

    def test_gas(self):
        # While pages stay, while they move, and after a death.
        only = ["GlobalArray.GathersAndScattersByIndex", "Moving.LosesNoAdditionAndNoPut",
                "Deaths.LoseThePagesOfTheDeadAlone"]
        self.passes("gas_test", divisor=10, only=":".join(only))

    def test_kv(self):
        # Recorded histories of sessions, and clients that connect to servers, one of which dies.
        self.passes("kv_team_test", divisor=10, only="*/Doorbell")
        self.passes("kv_service_test", only="AKvService.IsReadInEveryWay:AKvService.TellsWhenAServerIsKilled")


    def test_swap(self):
        """A program twice as large as its memory is right, and without the pool the machine goes on. And a file system."""
        with Machines() as machines:
            machines.start("alone", FAR)
            [output] = machines.outputs("alone")
            self.assertIn("twice its memory, and right", output)
            self.assertIn("the file is as it was", output)
            self.assertIn("the machine goes on", output)


# What a program computes has to go through the device: its memory is limited to half of what it uses.
FAR = """
export PATH=$PWD/build/release/bin:$PATH
plugin=$PWD/build/release/lib/nbdkit/plugins/nbdkit-farside-plugin.so
farside up -n 2 --cache 16M --far 256M
for device in 0 1; do
  nbdkit --swap --unix /run/far$device $plugin size=160M
  nbd-client -unix /run/far$device /dev/nbd$device -swap
done
mkswap /dev/nbd0
swapon /dev/nbd0

echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
echo 64M >/sys/fs/cgroup/small/memory.max
cat >/tmp/large.py <<'PROGRAM'
import random, sys, time
def block(number):
    return random.Random(number).randbytes(1 << 20)
blocks = [block(number) for number in range(128)]
order = list(range(128))
random.Random(0).shuffle(order)
assert all(blocks[number] == block(number) for number in order)
print("twice its memory, and right", flush=True)
for line in sys.stdin:
    assert all(blocks[number] == block(number) for number in order)
PROGRAM
mkfifo /tmp/again
(echo $BASHPID >/sys/fs/cgroup/small/cgroup.procs; exec python3 /tmp/large.py </tmp/again >/tmp/said 2>&1) &
exec 9>/tmp/again
until grep right /tmp/said; do sleep 0.2; kill -0 $!; done
awk '$1 == "/dev/nbd0" && $4 > 32 * 1024 { used = 1 } END { exit !used }' /proc/swaps

mkfs.ext4 -q /dev/nbd1
mkdir /tmp/mounted
mount -o discard /dev/nbd1 /tmp/mounted
cat >/tmp/mapped.py <<'PROGRAM'
import mmap, random
with open("/tmp/mounted/file", "w+b") as file:
    file.truncate(64 << 20)
    with mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = random.Random(1).randbytes(64 << 20)
PROGRAM
python3 /tmp/mapped.py
before=$(sha256sum </tmp/mounted/file)
umount /tmp/mounted
mount /dev/nbd1 /tmp/mounted
[ "$(sha256sum </tmp/mounted/file)" = "$before" ] && echo "the file is as it was"

farside down
echo again >&9
wait $! && exit 1  # what it needs is gone, and so is it
echo "the machine goes on"
"""

# Both machines see the files through a file system whose name says that it is one and the same on all hosts, and which
# counts what it is asked for on each.
TOGETHER = """
wait_for() { until [ -e "/shared/$1" ]; do sleep 0.2; done; }
read_file() { farside exec --under /tmp/files -- cmp "/tmp/files/$1" "/shared/files/$1"; }
bytes_asked_for() { python3 -c 'import os; print(os.getxattr("/tmp/files", "user.bytes_read").decode())'; }
export PATH=$PWD/build/release/bin:$PATH
(umask 077; cp /shared/secret /tmp/secret)
mkdir /tmp/files
counting_fs /shared/files /tmp/files -o fsname=server:/files,subtype=glusterfs &
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


# mpirun starts its daemon on the other machine with `AGENT HOST COMMAND...`, which ends with it.
AGENT = """#!/bin/bash
host=$1
shift
echo "$*" >/shared/command
mv /shared/command "/shared/command-for-$host"
until [ -e /shared/command-done ]; do sleep 0.2; done
rm /shared/command-done
"""

MPI = """
wait_for() { until [ -e "/shared/$1" ]; do sleep 0.2; done; }
printf '10.9.0.1 first\\n10.9.0.2 second\\n' >>/etc/hosts
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_oob_tcp_if_include=eth0
export FARSIDE_TEST_DIVISOR=2  # for its longer time limits
"""


class TwoMachines(unittest.TestCase):
    """Two kernels, joined by a cable."""

    def test_a_pool_spans_both_and_outlives_one(self):
        with Machines() as machines:
            (machines.shared / "secret").write_bytes(b"s" * 32)
            (machines.shared / "files").mkdir()
            for seed, name in enumerate(["both-1", "both-2", "both-3", "second"]):
                (machines.shared / "files" / name).write_bytes(random.Random(seed).randbytes(1 << 20))
            machines.start("first", joined_by_cable("10.9.0.1") + VERBS + TOGETHER + """
farside up $pool --listen 10.9.0.1:7777
for file in both-1 both-2 both-3; do read_file $file; done
touch /shared/first-has-read
wait_for second-is-dead
for file in both-1 both-2 both-3 second; do read_file $file; done
""", cable="server")
            machines.start("second", joined_by_cable("10.9.0.2") + VERBS + TOGETHER + """
farside up $pool --join 10.9.0.1:7777 --first-rank 1
wait_for first-has-read
# From the other machine, not from the file server. A node that stood still for 2 s was rightly given up by the other one,
# and goes on anew: so one of several files has to.
for file in both-1 both-2 both-3; do
  before=$(bytes_asked_for)
  read_file $file
  [ "$(bytes_asked_for)" -ne "$before" ] || came_from_first=$file
done
echo "$came_from_first came from the other machine"
[ -n "$came_from_first" ]
read_file second
touch /shared/second-has-read
sleep infinity
""", cable="client")
            machines.wait_for("second-has-read")
            machines.kill("second")
            (machines.shared / "second-is-dead").touch()
            machines.outputs("first")

    def test_mpirun_starts_a_team_on_both(self):
        with Machines() as machines:
            agent = machines.shared / "agent"  # stands in for ssh
            agent.write_text(AGENT)
            agent.chmod(0o755)
            machines.start("first", joined_by_cable("10.9.0.1") + VERBS + MPI + """
wait_for second-is-up
search='example_breadth_first_search examples/data/divisors.txt 1'
for program in 'team_member ring' example_laplace example_heat "$search"; do
  mpirun --host first,second --mca plm_rsh_agent /shared/agent build/release/bin/$program
done
""", cable="server")
            machines.start("second", joined_by_cable("10.9.0.2") + VERBS + MPI + """
touch /shared/second-is-up
for program in ring laplace heat search; do
  wait_for command-for-second
  bash /shared/command-for-second
  rm /shared/command-for-second
  touch /shared/command-done
done
""", cable="client")
            output, _ = machines.outputs("first", "second")
            for rank in range(2):
                self.assertIn(f"rank {rank} of 2\n", output)
            for program in ["2 ranks, 100 iterations", "2 ranks, 60 steps"]:
                self.assertIn(f"{program}:", output)
            self.assertIn("2 ranks: levels of 603 vertices, found right", output)


if __name__ == "__main__":
    print(f"test-vm: machines by {accelerator()}", flush=True)
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"test-vm: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed != 0)
