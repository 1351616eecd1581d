"""Nodes of a running pool are killed and come back, while programs read through them."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import unittest

import workbench
from waiting import wait_for

NAMES = ("binary", "text", "almost", "database")
NEW = "packed.gz"  # which no process has read before
OVER = sys.argv.pop(1)  # direct or ucx
FABRIC = {"direct": {}, "ucx": {"FARSIDE_FABRIC": "ucx", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}}[OVER]


class Restarts(unittest.TestCase):
    def setUp(self):
        os.environ.update(FABRIC)
        self.directory = self.enterContext(workbench.bench())
        self.files = self.enterContext(workbench.counting_mount(self.directory / "files", self.directory / "mount"))
        self.digests = {
            name: hashlib.sha256((self.directory / "files" / name).read_bytes()).hexdigest() for name in (*NAMES, NEW)
        }
        self.environment = self.enterContext(workbench.pool(self.directory / "pool", nodes=3))
        self.readers = [self.start_reader(node) for node in range(3)]

    def start_reader(self, node):
        """A program that reads through one node, for as long as the test lasts."""
        exec_on_node = [workbench.BIN / "farside", "exec", "--node", str(node), "--under", self.files, "--"]

        def start(command, **options):
            return subprocess.Popen([*exec_on_node, *command], env=os.environ | self.environment, **options)

        return self.enterContext(workbench.Reader(start, self.files))

    def nodes(self):
        status = [workbench.BIN / "farside", "status", "--json"]
        done = subprocess.run(status, env=os.environ | self.environment, capture_output=True, check=False)
        return json.loads(done.stdout)["nodes"]  # it ends with 1 while a node is down

    def all_read(self, readers, names=NAMES):
        """All at once; each gets the right bytes."""
        for name in names:
            for reader in readers:
                reader.ask(name)
            for reader in readers:
                self.assertEqual(reader.answer(), self.digests[name])

    def kill(self, node):
        os.kill(self.nodes()[node]["process"], signal.SIGKILL)

    def wait_for_return(self, node, restarts):
        def is_back():
            now = self.nodes()[node]
            return now["restarts"] == restarts and now["state"] == "up"

        wait_for(is_back, f"node {node} to come back")

    def test_readers_get_right_bytes_while_nodes_die_and_come_back(self):
        self.all_read(self.readers)
        for restarts in (1, 2, 3):
            for reader in self.readers:  # they read while it dies
                for name in NAMES:
                    reader.ask(name)
            self.kill(1)
            for reader in self.readers:
                for name in NAMES:
                    self.assertEqual(reader.answer(), self.digests[name])
            self.all_read(self.readers)
            self.wait_for_return(1, restarts)
            self.all_read(self.readers)

        # A program of its that misses a block finds its node again.
        def is_found():
            before = self.nodes()[1]["hits"]
            self.all_read(self.readers[1:2], (NEW, *NAMES))
            return self.nodes()[1]["hits"] > before

        wait_for(is_found, "the new node to be found")

    def test_the_file_system_is_asked_again_only_for_what_was_lost(self):
        self.all_read(self.readers[:1])
        self.all_read(self.readers[1:])
        whole = workbench.bytes_read(self.files)
        self.assertEqual(whole, sum(workbench.size(self.directory / "files" / name) for name in NAMES))
        self.kill(1)
        self.wait_for_return(1, 1)

        # What the others hold is there.
        self.all_read([self.readers[0], self.readers[2]])
        self.assertEqual(workbench.bytes_read(self.files), whole)
        # The new node finds what the others list; a third was listed at the node that died.
        fresh = self.start_reader(1)
        self.all_read([fresh])
        asked_again = workbench.bytes_read(self.files) - whole
        self.assertLess(asked_again, whole * 2 / 3)
        # And what is read from now on is shared as ever.
        self.all_read([fresh], [NEW])
        self.all_read([self.readers[0], self.readers[2]], [NEW])
        once = workbench.size(self.directory / "files" / NEW)
        self.assertEqual(workbench.bytes_read(self.files) - whole - asked_again, once)
        self.assertEqual(self.nodes()[1]["blocks"], self.nodes()[0]["blocks"])


if __name__ == "__main__":
    unittest.main()
