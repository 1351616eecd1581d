"""What programs do with memory, under `farside far`: hammer.cc looks at every byte."""
import os
import unittest

import waiting
import pool
from far_ways import LOCAL

HAMMER = os.environ["FARSIDE_HAMMER"]


class OnAPool(unittest.TestCase):
    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--far", "512M")
        self.addCleanup(self.pool.stop)


class Hammer(OnAPool):
    DEEDS = ["allocations", "closes_everything", "file_at_the_end", "files_mapped_over", "forks", "forks_with_threads",
             "mappings", "pins", "refused_mappings", "signals", "spawns", "static_arrays", "system_calls", "threads",
             "too_many_mappings", "vfork_outlives_its_parent"]

    def test_every_byte_is_as_it_was_left(self):
        for deed in self.DEEDS:
            with self.subTest(deed):
                done = self.pool.run("far", "--local", LOCAL, "--", HAMMER, deed)
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        waiting.wait_for(lambda: sum(self.pool.lent()) == 0, "memory does not come back")


class BadInput(OnAPool):
    def refused(self, *arguments):
        done = self.pool.run("far", *arguments, "--", "true")
        self.assertIn(done.returncode, [2, 125])
        return done.stderr

    def test_is_told(self):
        self.assertIn("--local", self.refused("--local", "0"))
        self.assertIn("only", self.refused("--local", "4096G"))
        self.assertIn("1 GiB", self.refused("--local", LOCAL, "--far", "4G"))  # what is there


if __name__ == "__main__":
    unittest.main()
