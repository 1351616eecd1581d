"""A pool of two nodes, the test's own, which ends with it."""
import json
import os
import signal
import subprocess
import tempfile

import patience


class Pool:
    def __init__(self, *arguments):
        self.directory = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "FARSIDE_RUNTIME_DIR": self.directory.name + "/run", "HOME": self.directory.name}
        self.process = self.start("up", "--foreground", "-n", "2", *arguments)
        patience.wait_for(lambda: self.run("status").stdout.count(" up ") == 2, "the pool did not start")

    def start(self, *arguments, **options):
        """A command that goes on; it ends when this process dies."""
        return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", os.environ["FARSIDE_COMMAND"], *arguments],
                                env=self.environment, stdout=subprocess.PIPE, text=True, **options)

    def run(self, *arguments, **options):
        return subprocess.run([os.environ["FARSIDE_COMMAND"], *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=patience.PATIENCE_S, check=False, **options)

    def status(self):
        return json.loads(self.run("status", "--json").stdout)

    def lent(self):
        """How many bytes each node has lent."""
        return [node.get("bytes_lent", 0) for node in self.status()["far"]["nodes"]]

    def kill_node(self, rank):
        """Returns when the node is back, with nothing of what it had."""
        restarts = self.status()["nodes"][rank]["restarts"]
        os.kill(self.status()["nodes"][rank]["process"], signal.SIGKILL)
        patience.wait_for(lambda: self.status()["nodes"][rank]["restarts"] > restarts, "the node does not come back")

    def stop(self):
        self.process.terminate()
        self.process.stdout.close()
        self.process.wait(patience.PATIENCE_S)
        self.directory.cleanup()
