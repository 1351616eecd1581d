"""Programs with far memory on a pool, in either way, whatever happens to them, to their nodes, and to `farside far`. On
the fabric that the environment names."""
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import unittest

import waiting
import pool
import prometheus
from far_ways import WAYS, ForEver, below_farside_far, sorts_as_ever, with_a_heap


def children(process):
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class OnAPool(unittest.TestCase):
    INSIDE = ()

    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--far", "256M", inside=self.INSIDE)
        self.addCleanup(self.pool.stop)

    def start(self, way, *options):
        """One that has filled its memory, and goes on."""
        program = ForEver(self.pool.start_program, way(*options))
        self.addCleanup(program.process.communicate)
        self.addCleanup(program.kill)
        return program

    def all_comes_back(self):
        waiting.wait_for(lambda: sum(self.pool.lent()) == 0, "memory does not come back")

    def run_program(self, command):
        return self.pool.run_program(command, timeout=4 * waiting.TIMEOUT_S)


class Bytes(OnAPool):
    def test_every_byte_is_as_it_was_left(self):
        for way, deeds in [(below_farside_far, ["forks", "mappings", "system_calls", "threads"]),
                            (with_a_heap, ["sorts", "threads"])]:
            for deed in deeds:
                with self.subTest(way=way.__name__, deed=deed):
                    done = self.run_program([*way(), deed])
                    self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.all_comes_back()

    def test_system_calls_reach_a_heap_that_is_made_for_them(self):
        done = self.run_program([*with_a_heap("--for-system-calls"), "system_calls"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_sort_sorts_while_a_node_is_killed(self):
        def lose_a_node():
            waiting.wait_for(lambda: sum(self.pool.lent()) > 0, "nothing of it is far")
            self.pool.kill_node(1)

        with tempfile.TemporaryDirectory() as directory:
            self.assertTrue(sorts_as_ever(self.pool.start_program, directory, lose_a_node))


class Deaths(OnAPool):
    def in_both_ways(self, check, *options):
        for way in WAYS:
            with self.subTest(way=way.__name__):
                # A node that is not back yet would get nothing of what the program has.
                waiting.wait_for(self.pool.all_lend, "not all nodes lend")
                check(self.start(way, *options))
                self.all_comes_back()

    def test_memory_comes_back_when_the_program_is_killed(self):
        def check(program):
            self.assertGreater(sum(self.pool.lent()), 0)
            for killed in children(program.process.pid) or [program.process.pid]:
                os.kill(killed, signal.SIGKILL)
            self.assertEqual(program.end(), (128 + signal.SIGKILL, ""))

        self.in_both_ways(check)

    def test_a_program_ends_with_its_pager(self):
        """It is killed before it could take an absent page for zeros: the hammer says nothing of wrong bytes."""
        far = self.start(below_farside_far)
        (program,) = children(far.process.pid)
        alive = os.pidfd_open(program)
        far.kill()
        self.assertEqual(far.end()[1], "")
        self.assertEqual(select.select([alive], [], [], waiting.TIMEOUT_S)[0], [alive], "the program goes on")
        os.close(alive)
        self.all_comes_back()

    def ends_by_bus_error(self, program):
        code, errors = program.end()
        self.assertEqual(code, 128 + signal.SIGBUS, errors)
        self.assertNotIn("hammer:", errors)
        self.assertRegex(errors, "cannot (bring a page of far memory|carry a page of far memory away): lost")
        return errors

    def test_a_lost_node_ends_a_program_that_trusts_it(self):
        """What it had is nowhere, and no zeros are made up."""
        def check(program):
            self.pool.kill_node(1)
            self.ends_by_bus_error(program)

        self.in_both_ways(check, "--trust-nodes")

    def test_what_was_lost_with_a_node_is_named(self):
        """Although the program ends by it at once."""
        program = self.start(below_farside_far, "--trust-nodes")
        self.pool.kill_node(1)
        self.assertRegex(self.ends_by_bus_error(program),
                         r"far memory: every copy of [0-9.]+ MiB is lost with node 1, the first at offset \d+: ")

    def test_metrics_count_losses_of_a_mirror(self):
        program = self.start(below_farside_far, "--mirror", "--metrics", "127.0.0.1:0")
        page = program.process.stderr.readline().decode().split()[-1]

        def counts():
            values = prometheus.parse(prometheus.fetch(page))
            return values["farside_far_single_copy_total"], values["farside_far_mirrored_again_total"]
        self.assertEqual(counts(), (0, 0))
        self.pool.kill_node(1)
        waiting.wait_for(lambda: counts()[1] > 0, "it is not mirrored again")
        self.assertEqual(counts(), (1, 1))

    def test_a_mirrored_program_goes_on_without_a_node(self):
        """And without the other one, when all lies on two again."""
        def check(program):
            for rank in [1, 0]:
                self.pool.kill_node(rank)
                waiting.wait_for(self.pool.is_mirrored, "it is not mirrored again")
                self.assertTrue(program.goes_on(), "it ended")
            program.tell_to_end()
            code, errors = program.end()
            self.assertEqual(code, 128 + signal.SIGTERM, errors)
            self.assertIn("have a single copy until they are copied to another node", errors)
            self.assertEqual([line for line in errors.splitlines() if "warning: far memory: " not in line], [])

        self.in_both_ways(check, "--mirror")

    def test_a_pool_that_ends_ends_its_programs(self):
        programs = [self.start(way, "--mirror") for way in WAYS]
        self.pool.process.terminate()
        for program in programs:
            self.ends_by_bus_error(program)


class BadInput(OnAPool):
    def test_a_heap_is_told_what_it_cannot_have(self):
        for options, told in [(["--far", "1G"], "the pool has 512 MiB left"),
                              (["--far", "512M", "--mirror"], "the pool has 256 MiB left, mirrored"),
                              (["--local", "0"], "that is too little"),
                              (["--local", "4096G"], "are to be had")]:
            with self.subTest(options=options):
                done = self.run_program([*with_a_heap(*options), "sorts"])
                self.assertEqual(done.returncode, 1)
                self.assertIn(told, done.stderr)


class Rights(OnAPool):
    """Who may not serve faults of the kernel is told by which setting it could; a heap that serves its own works."""
    INSIDE = ["unshare", "--mount", "sh", "-ec",
              '[ ! -e /dev/userfaultfd ] || mount --bind /dev/null /dev/userfaultfd; exec setpriv --bounding-set=-sys_ptrace -- "$@"',
              "sh"]

    def setUp(self):
        if pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").read_text() != "0\n":
            self.skipTest("every user is permitted here")
        without = subprocess.run([*self.INSIDE, "true"], capture_output=True, text=True, check=False)
        if without.returncode != 0:
            self.skipTest(f"takes root, to give rights up: {without.stderr}")
        super().setUp()

    def test_that_are_missing_are_named(self):
        for command, code in [([*below_farside_far(), "threads"], 125),
                              ([*with_a_heap("--for-system-calls"), "system_calls"], 1)]:
            done = self.run_program(command)
            self.assertEqual(done.returncode, code)
            self.assertIn("sysctl vm.unprivileged_userfaultfd=1", done.stderr)

    def test_that_are_not_needed_are_not_asked_for(self):
        done = self.run_program([*with_a_heap(), "sorts"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
