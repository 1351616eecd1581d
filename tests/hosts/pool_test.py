"""A pool with a node on each of four hosts, over UCX's TCP."""
import hashlib
import json
import os
import random
import subprocess
import time
import unittest

import hosts
import workbench
from patience import PATIENCE_S, wait_for

FARSIDE = workbench.BIN / "farside"
DIGESTS = "find . -type f -print0 | sort -z | xargs -0 sha256sum"


class Pool:
    """One node on each host; the first host's is where they meet."""

    def __init__(self, where, directory):
        self.hosts = where
        self.directory = directory
        self.environment = os.environ | {
            "FARSIDE_RUNTIME_DIR": "/run/farside",
            "UCX_TLS": "tcp",
            "UCX_NET_DEVICES": hosts.DEVICE,
        }
        secret = hosts.SHARED / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        meeting = f"{self.hosts[0].address}:7777"
        self.up = ["up", "--nodes", len(self.hosts.all), "--cache", "32M", "--block", "64K", "--secret", secret]
        self.ways = [["--listen", meeting]]
        self.ways += [["--join", meeting, "--first-rank", host.index] for host in self.hosts.all[1:]]

    def __enter__(self):
        started = [self.farside(host, [*self.up, *self.ways[host.index]]) for host in self.hosts]
        codes = [program.wait(PATIENCE_S) for program in started]
        if any(codes):
            self.__exit__()
            raise RuntimeError(f"farside up ended with {codes}")
        return self

    def __exit__(self, *_):
        for program in [self.farside(host, ["down"]) for host in self.hosts]:
            program.wait(PATIENCE_S)

    def farside(self, host, arguments):
        return host.start([FARSIDE, *arguments], env=self.environment, stdout=subprocess.DEVNULL)

    def exec_on(self, host, command, **options):
        under = [FARSIDE, "exec", "--under", self.directory, "--"]
        return host.start([*under, *command], env=self.environment, directory=self.directory, **options)

    def reader(self, host):
        return workbench.Reader(lambda command, **options: self.exec_on(host, command, **options), self.directory)

    def node(self, host):
        """What `farside status` says of it."""
        shown = host.run([FARSIDE, "status", "--json"], env=self.environment)
        return json.loads(shown.stdout)["nodes"][0]

    def wait_for_return(self, host):
        def is_back():
            node = self.node(host)
            return node["restarts"] > 0 and node["state"] == "up"

        wait_for(is_back, f"the node of {host.name} to come back")

    def kill_node(self, host):
        host.do(["kill", "-9", self.node(host)["process"]])


class PoolOnHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts(4)
        cls.files = hosts.FileServer("files", cls.hosts)
        dice = random.Random(4)
        for number in range(48):
            path = cls.files.source / str(number % 5) / f"file {number}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(dice.randbytes(dice.randrange(300_000)))
        cls.names = sorted(path.relative_to(cls.files.source) for path in cls.files.source.rglob("file *"))
        cls.digests = {
            name: hashlib.sha256((cls.files.source / name).read_bytes()).hexdigest() for name in cls.names
        }
        time.sleep(workbench.SETTLED_S)

    def setUp(self):
        self.hosts.heal()
        self.pool = self.enterContext(Pool(self.hosts, self.files.mountpoint))
        self.asked_before = self.files.bytes_read()

    def start_readers(self):
        return [self.enterContext(self.pool.reader(host)) for host in self.hosts]

    def bytes_asked_for(self):
        """Of the file system, by each host, since the test began."""
        return [now - before for now, before in zip(self.files.bytes_read(), self.asked_before)]

    def size(self, names):
        return sum((self.files.source / name).stat().st_size for name in names)

    def ask(self, readers, names):
        for name in names:
            for reader in readers:
                reader.ask(name)

    def expect_answers(self, readers, names):
        for name in names:
            for reader in readers:
                self.assertEqual(reader.answer(), self.digests[name])

    def read(self, readers, names):
        """All at once; each gets the right bytes."""
        self.ask(readers, names)
        self.expect_answers(readers, names)

    def test_all_read_one_tree_and_the_file_system_is_asked_for_each_byte_once(self):
        expected = subprocess.run(["sh", "-c", DIGESTS], cwd=self.files.source, capture_output=True, check=True).stdout
        programs = [self.pool.exec_on(host, ["sh", "-c", DIGESTS], stdout=subprocess.PIPE) for host in self.hosts]
        for program in programs:
            self.assertEqual(program.communicate(timeout=PATIENCE_S)[0], expected)
        self.assertEqual(sum(self.bytes_asked_for()), self.size(self.names))

    def test_two_nodes_are_killed_at_once_while_all_read(self):
        readers = self.start_readers()
        self.read(readers, self.names[:10])
        self.ask(readers, self.names)
        for host in (self.hosts[1], self.hosts[3]):
            self.pool.kill_node(host)
        self.expect_answers(readers, self.names)
        for host in (self.hosts[1], self.hosts[3]):
            self.pool.wait_for_return(host)
        self.read(readers, self.names)


if __name__ == "__main__":
    hosts.isolate()
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
