"""A program of the host that is not under farside stores into a file through a mapping. The next open sees each store,
on every node, though the kernel moves the file's times at the first one only."""
import hashlib
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import workbench
from waiting import TIMEOUT_S

NODES = 2
BYTES = 200_000


class Writer:
    """The program that stores."""

    def __init__(self, path):
        self.program = subprocess.Popen([workbench.BIN / "mapped_writer", path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def do(self, command):
        self.program.stdin.write(f"{command}\n")
        self.program.stdin.flush()
        assert self.program.stdout.readline().strip() == command.split()[0], command

    def end(self):
        self.program.communicate(timeout=TIMEOUT_S)


class Stores(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="farside-exec-"))
        cls.directory = pathlib.Path(directory).resolve()
        cls.pool = cls.enterClassContext(workbench.pool(cls.directory / "pool", nodes=NODES))
        cls.readers = [cls.enterClassContext(cls.reader(node)) for node in range(NODES)]
        (cls.directory / "settled").write_bytes(bytes(BYTES))
        time.sleep(workbench.SETTLED_S)
        if not cls.is_cached("settled"):
            raise unittest.SkipTest(f"{directory} is on a file system that cannot be cached")

    @classmethod
    def reader(cls, node):
        exec_on_node = [workbench.BIN / "farside", "exec", "--node", str(node), "--under", str(cls.directory), "--"]

        def start(command, **options):
            return subprocess.Popen([*exec_on_node, *command], env=os.environ | cls.pool, **options)

        return workbench.Reader(start, cls.directory)

    @classmethod
    def read(cls, name):
        """On each node."""
        for reader in cls.readers:
            reader.ask(name)
        return [reader.answer() for reader in cls.readers]

    @classmethod
    def is_cached(cls, name):
        cls.read(name)
        before = workbench.hit_bytes(cls.pool)
        cls.read(name)
        return workbench.hit_bytes(cls.pool) - before == NODES * BYTES

    def shows(self, name, letter):
        content = letter.encode() + bytes(BYTES - 1)
        for _ in range(2):  # the second time out of memory, if it came there
            self.assertEqual(self.read(name), [hashlib.sha256(content).hexdigest()] * NODES)

    def make(self, name):
        path = self.directory / name
        path.write_bytes(b"0" + bytes(BYTES - 1))
        writer = Writer(path)
        self.addCleanup(writer.end)
        return path, writer

    def sees_every_store(self, name, before):
        """`before`: what the writer does before the file settles."""
        path, writer = self.make(name)
        for command in before:
            writer.do(command)
        writer.do("store a")
        time.sleep(workbench.SETTLED_S)
        self.shows(name, "a")
        writer.do("store b")
        self.shows(name, "b")
        writer.do("flush")
        self.shows(name, "b")
        writer.do("store c")
        time.sleep(workbench.SETTLED_S)
        self.shows(name, "c")
        writer.do("store d")
        self.shows(name, "d")
        writer.do("unmap")
        writer.end()
        self.shows(name, "d")
        time.sleep(workbench.SETTLED_S)
        self.assertTrue(self.is_cached(name))  # what no process may write any more
        self.shows(name, "d")

    def test_while_the_descriptor_is_open(self):
        self.sees_every_store("open", [])

    def test_when_the_mapping_outlives_the_descriptor(self):
        self.sees_every_store("closed", ["close"])

    def test_after_the_file_was_cached(self):
        """The mapping is newer than what was cached of the file: its first store shows in the times."""
        path = self.directory / "before"
        path.write_bytes(b"0" + bytes(BYTES - 1))
        time.sleep(workbench.SETTLED_S)
        self.assertTrue(self.is_cached("before"))
        writer = Writer(path)
        self.addCleanup(writer.end)
        self.shows("before", "0")
        for letter in "abc":
            writer.do(f"store {letter}")
            self.shows("before", letter)
            time.sleep(workbench.SETTLED_S)
            self.shows("before", letter)


if __name__ == "__main__":
    unittest.main()
