"""A file server whose clock is not this host's, and whose times are whole seconds. See docs/exec.md, "Limits"."""
import contextlib
import os
import time
import unittest

import workbench
from waiting import wait_for


class Skew(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(workbench.bench())

    @contextlib.contextmanager
    def served(self, seconds):
        """A directory on a server that is so many seconds ahead, and the environment of a program that reads there."""
        source = self.directory / f"source {seconds}"
        mount = self.directory / f"mount {seconds}"
        source.mkdir()
        (source / "file").write_text("first")
        time.sleep(workbench.SETTLED_S)
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(workbench.pool(self.directory / f"run {seconds}".replace(" ", ""), nodes=1))
            stack.enter_context(workbench.counting_mount(source, mount, "--skew", seconds))
            yield source, mount, os.environ | pool

    def read(self, mount, environment):
        command = [workbench.BIN / "farside", "exec", "--under", mount, "--", "cat", mount / "file"]
        return workbench.run([str(word) for word in command], self.directory / "scratch", environment).output.decode()

    def second_of(self, path):
        return int(path.stat().st_mtime)

    def second_of_a_change(self, directory):
        """The time that a file has that changes now."""
        probe = directory / "probe"
        probe.touch()
        return self.second_of(probe)

    def test_files_of_a_server_that_is_ahead_are_the_kernels(self):
        """They seem to have changed just now, or later: for as long as the clocks differ by, and 2 s."""
        with self.served(3600) as (_, mount, environment):
            for _ in range(3):
                self.assertEqual(self.read(mount, environment), "first")
            self.assertEqual(workbench.hit_bytes(environment), 0)

    def test_changes_on_a_server_that_is_behind_are_seen_when_its_times_show_them(self):
        """A file that changed just now seems to be settled. What was read from it is right until the server's times move
        on: two changes within one of its seconds are not told apart, which is the limit."""
        with self.served(-3600) as (source, mount, environment):
            for content in ("first", "other", "third"):
                (source / "file").write_text(content)
                for _ in range(2):  # from the file system, and from memory
                    self.assertEqual(self.read(mount, environment), content)
                second = self.second_of(source / "file")
                # A file's time may lag behind the clock by a tick, so a file says when the second has passed.
                wait_for(lambda: self.second_of_a_change(source) > second, "the server's next second")
            self.assertGreater(workbench.hit_bytes(environment), 0)


if __name__ == "__main__":
    unittest.main()
