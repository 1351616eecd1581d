"""A pool of two nodes, the test's own, which ends with it; and tests that share one."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import waiting


class Pool:
    def __init__(self, *arguments, inside=()):
        """All of its commands are started by the words `inside`."""
        self.inside = inside
        self.directory = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "FARSIDE_RUNTIME_DIR": self.directory.name + "/run", "HOME": self.directory.name}
        self.arguments = arguments
        self.up()

    def up(self):
        self.process = self.start("up", "--foreground", "-n", "2", *self.arguments)
        waiting.wait_for(lambda: self.run("status").stdout.count(" up ") == 2, "the pool did not start")

    def down(self):
        self.process.terminate()
        self.process.stdout.close()
        self.process.wait(waiting.TIMEOUT_S)

    def start(self, *arguments, **options):
        """A command that goes on; it ends when this process dies."""
        return self.start_program([os.environ["FARSIDE_COMMAND"], *arguments], stdout=subprocess.PIPE, text=True, **options)

    def start_program(self, command, **options):
        """The same for any program that uses the pool."""
        return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *self.inside, *command], env=self.environment, **options)

    def run(self, *arguments, **options):
        return self.run_program([os.environ["FARSIDE_COMMAND"], *arguments], **options)

    def run_program(self, command, timeout=waiting.TIMEOUT_S, **options):
        return subprocess.run([*self.inside, *command], env=self.environment, capture_output=True, text=True,
                              timeout=timeout, check=False, **options)

    def status(self):
        return json.loads(self.run("status", "--json").stdout)

    def lent(self):
        """How many bytes each node has lent."""
        return [node.get("bytes_lent", 0) for node in self.status()["far"]["nodes"]]

    def all_lend(self):
        nodes = self.status()["far"].get("nodes", [])
        return len(nodes) > 0 and all("bytes_lent" in node for node in nodes)

    def kill_node(self, rank):
        """Returns when the node is back, with nothing of what it had."""
        restarts = self.status()["nodes"][rank]["restarts"]
        os.kill(self.status()["nodes"][rank]["process"], signal.SIGKILL)
        waiting.wait_for(lambda: self.status()["nodes"][rank]["restarts"] > restarts, "the node does not come back")

    def is_mirrored(self):
        """Of two nodes, which have one thing each when all that is far lies on both."""
        one, other = self.lent()
        return one == other > 0

    def stop(self):
        self.down()
        self.directory.cleanup()


class OnASharedPool(unittest.TestCase):
    """Each test has a directory of its own."""
    FAR = "128M"

    @classmethod
    def setUpClass(cls):
        cls.pool = Pool("--cache", "16M", "--far", cls.FAR)
        cls.addClassCleanup(cls.pool.stop)

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
