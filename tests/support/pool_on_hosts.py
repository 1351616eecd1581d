"""A pool with a node on each of some hosts, over UCX's TCP."""
import json
import os
import subprocess

import hosts
import workbench
from waiting import TIMEOUT_S, wait_for

FARSIDE = workbench.BIN / "farside"


class Pool:
    """One node on each host; the first host's is where they meet."""

    def __init__(self, where, directory, options=()):
        self.hosts = where
        self.directory = directory
        self.environment = os.environ | {
            "FARSIDE_RUNTIME_DIR": "/run/farside",
            "UCX_TLS": "tcp",
        }
        self.environment.pop("UCX_NET_DEVICES", None)  # found out from where they meet
        secret = hosts.SHARED / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
        meeting = f"{self.hosts[0].address}:7777"
        self.up = ["up", "--nodes", len(self.hosts.all), "--cache", "32M", "--block", "64K", "--secret", secret, *options]
        self.ways = [["--listen", meeting, "--silence", "2s"]]
        self.ways += [["--join", meeting, "--first-rank", host.index] for host in self.hosts.all[1:]]

    def __enter__(self):
        started = [self.start_on(host) for host in self.hosts]
        codes = [program.wait(TIMEOUT_S) for program in started]
        if any(codes):
            self.__exit__()
            raise RuntimeError(f"farside up ended with {codes}")
        return self

    def __exit__(self, *_):
        for program in [self.farside(host, ["down"]) for host in self.hosts]:
            program.wait(TIMEOUT_S)

    def start_on(self, host):
        return self.farside(host, [*self.up, *self.ways[host.index]])

    def farside(self, host, arguments):
        return host.start([FARSIDE, *arguments], env=self.environment, stdout=subprocess.DEVNULL)

    def exec_on(self, host, command, **options):
        under = [FARSIDE, "exec", "--under", self.directory, "--"]
        return host.start([*under, *command], env=self.environment, directory=self.directory, **options)

    def reader(self, host):
        return workbench.Reader(lambda command, **options: self.exec_on(host, command, **options), self.directory)

    def status(self, host):
        return json.loads(host.run([FARSIDE, "status", "--json"], env=self.environment).stdout)

    def lent(self, host):
        """How many bytes of far memory each node has lent, as `host` sees it."""
        return [node.get("bytes_lent", 0) for node in self.status(host)["far"]["nodes"]]

    def node(self, host):
        return self.status(host)["nodes"][0]

    def wait_for_return(self, host):
        def is_back():
            node = self.node(host)
            return node["restarts"] > 0 and node["state"] == "up"

        wait_for(is_back, f"the node of {host.name} to come back")

    def kill_node(self, host):
        host.do(["kill", "-9", self.node(host)["process"]])

    def break_connections(self, host, other):
        """All between the nodes of the two, not those of other programs. Both learn of it; new ones can be made. False:
        this kernel ends no connections (CONFIG_INET_DIAG_DESTROY)."""
        there = {(far, near) for near, far in self.connections(other, host)}
        shared = [f"( src {near} dst {far} )" for near, far in self.connections(host, other) if (near, far) in there]
        return bool(host.do(["ss", "--kill", "--tcp", "--no-header", " or ".join(shared)]))

    def connections(self, host, other):
        """The addresses at the two ends of each that the node of `host` has with `other`."""
        process = f"pid={self.node(host)['process']},"
        listed = host.do(["ss", "--tcp", "--no-header", "--numeric", "--processes", "dst", other.address])
        return [tuple(line.split()[3:5]) for line in listed.splitlines() if process in line]

    def log(self, host):
        return host.path("run/farside/pool.log").read_text()

    def wait_for_log(self, host, text, times=1):
        try:
            wait_for(lambda: self.log(host).count(text) >= times, f'"{text}"')
        except TimeoutError as error:
            logs = "\n".join(f"{each.name}:\n{self.log(each)}" for each in self.hosts)
            raise AssertionError(f"the log of {host.name} lacks {error}:\n{logs}") from None
