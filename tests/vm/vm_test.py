"""Part of the suites in virtual machines, over Soft-RoCE: verbs, on the kernel's own RDMA stack (docs/testing.md)."""
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


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"test-vm: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed != 0)
