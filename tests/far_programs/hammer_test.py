"""What programs do with memory, under `farside far`: hammer.cc looks at every byte. And what happens when something dies."""
import os
import pathlib
import select
import signal
import subprocess
import unittest

import patience
import pool

HAMMER = os.environ["FARSIDE_HAMMER"]
LOCAL = "12M"  # the hammer has 48 MiB


def children(process):
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class OnAPool(unittest.TestCase):
    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--far", "512M")
        self.addCleanup(self.pool.stop)

    def far(self, *arguments):
        """A `farside far` that goes on, and the process of its program, which has filled its memory."""
        far = self.pool.start("far", "--local", LOCAL, *arguments, "--", HAMMER, "for_ever", stderr=subprocess.PIPE)
        self.addCleanup(far.communicate)
        self.addCleanup(far.kill)
        self.assertEqual(far.stdout.readline(), "ready\n")
        (program,) = children(far.pid)
        return far, program

    def is_mirrored(self):
        one, other = self.pool.lent()
        return one == other > 0

    def all_comes_back(self):
        patience.wait_for(lambda: sum(self.pool.lent()) == 0, "memory does not come back")


class Hammer(OnAPool):
    DEEDS = ["allocations", "closes_everything", "files_mapped_over", "forks", "forks_with_threads", "mappings", "signals",
             "spawns", "static_arrays", "system_calls", "threads", "vfork_outlives_its_parent"]

    def test_every_byte_is_as_it_was_left(self):
        for deed in self.DEEDS:
            with self.subTest(deed):
                done = self.pool.run("far", "--local", LOCAL, "--", HAMMER, deed)
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.all_comes_back()


class Deaths(OnAPool):
    def test_memory_comes_back_when_the_program_is_killed(self):
        far, program = self.far()
        self.assertGreater(sum(self.pool.lent()), 0)
        os.kill(program, signal.SIGKILL)
        self.assertEqual(far.wait(patience.PATIENCE_S), 128 + signal.SIGKILL)
        self.all_comes_back()

    def test_a_program_ends_with_its_pager(self):
        """It is killed before it could take an absent page for zeros: the hammer says nothing of wrong bytes."""
        far, program = self.far()
        alive = os.pidfd_open(program)
        far.kill()
        _, errors = far.communicate(timeout=patience.PATIENCE_S)
        self.assertEqual(errors, "")
        self.assertEqual(select.select([alive], [], [], patience.PATIENCE_S)[0], [alive], "the program goes on")
        os.close(alive)
        self.all_comes_back()

    def test_a_lost_node_ends_the_program(self):
        """What it had is nowhere, and no zeros are made up."""
        far, _ = self.far("--trust-nodes")
        self.pool.kill_node(1)
        _, errors = far.communicate(timeout=patience.PATIENCE_S)
        self.assertEqual(far.returncode, 128 + signal.SIGBUS)
        self.assertNotIn("hammer:", errors)
        self.assertIn("farside", errors)
        self.all_comes_back()

    def test_a_mirrored_program_goes_on_without_a_node(self):
        far, program = self.far("--mirror")
        self.pool.kill_node(1)
        patience.wait_for(self.is_mirrored, "it is not mirrored again")
        self.assertIsNone(far.poll())
        os.kill(program, signal.SIGTERM)
        _, errors = far.communicate(timeout=patience.PATIENCE_S)
        self.assertEqual((far.returncode, errors), (128 + signal.SIGTERM, ""))


class BadInput(OnAPool):
    def refused(self, *arguments):
        done = self.pool.run("far", *arguments, "--", "true")
        self.assertIn(done.returncode, [1, 2])
        return done.stderr

    def test_is_told(self):
        self.assertIn("--local", self.refused("--local", "0"))
        self.assertIn("only", self.refused("--local", "4096G"))
        self.assertIn("1 GiB", self.refused("--local", LOCAL, "--far", "4G"))  # what is there


if __name__ == "__main__":
    unittest.main()
