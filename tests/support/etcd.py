"""Servers of etcd, one on each of some hosts."""
import json
import os

import hosts
from waiting import TIMEOUT_S, wait_for

PROGRAMS = ["etcd", "etcdctl"]
CLIENT_PORT = 2379
PEER_PORT = 2380


class Etcd:
    """Of hosts of namespaces, each of which keeps its server's data in its own /run."""

    def __init__(self, where, quota_bytes=0):
        self.hosts = where.all
        self.quota_bytes = quota_bytes
        self.endpoints = [f"{host.address}:{CLIENT_PORT}" for host in self.hosts]
        self.programs = {}

    def __enter__(self):
        for host in self.hosts:
            host.do(["rm", "-rf", "/run/etcd"])
            self.start(host)
        wait_for(lambda: self.ask("endpoint", "health").returncode == 0, "the servers of etcd")
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            self.kill(host)

    def url(self, pool):
        return f"etcd://{','.join(self.endpoints)}/{pool}"

    def start(self, host):
        own = f"http://{host.address}"
        cluster = ",".join(f"{each.name}=http://{each.address}:{PEER_PORT}" for each in self.hosts)
        command = ["etcd", "--name", host.name, "--data-dir", "/run/etcd", "--initial-cluster", cluster,
                   "--listen-client-urls", f"{own}:{CLIENT_PORT}", "--advertise-client-urls", f"{own}:{CLIENT_PORT}",
                   "--listen-peer-urls", f"{own}:{PEER_PORT}", "--initial-advertise-peer-urls", f"{own}:{PEER_PORT}",
                   "--quota-backend-bytes", self.quota_bytes]
        log = (hosts.SHARED / f"etcd-{host.name}").open("a")
        self.programs[host] = host.start(command, stdout=log, stderr=log)

    def kill(self, host):
        program = self.programs.pop(host, None)
        if program is not None:
            program.kill()
            program.wait(TIMEOUT_S)

    def signal(self, host, number):
        self.programs[host].send_signal(number)

    def ask(self, *arguments, host=None):
        """By etcdctl, of all servers. By `host`'s alone, if one is named."""
        asked = self.endpoints if host is None else [f"{host.address}:{CLIENT_PORT}"]
        command = ["etcdctl", "--endpoints", ",".join(asked), *arguments]
        return self.hosts[0].run(command, env={**os.environ, "ETCDCTL_API": "3"}, errors="replace")

    def do(self, *arguments, host=None):
        done = self.ask(*arguments, host=host)
        if done.returncode != 0:
            raise RuntimeError(f"etcdctl {arguments}: {done.stderr}")
        return done.stdout

    def status(self, host):
        return json.loads(self.do("endpoint", "status", "--write-out", "json", host=host))[0]["Status"]

    def leader(self):
        def found():
            for host in self.programs:
                try:
                    status = self.status(host)
                except RuntimeError:
                    continue
                if status["leader"] == status["header"]["member_id"]:
                    return host
            return None

        wait_for(lambda: found() is not None, "a leader of etcd")
        return found()

    def records(self, pool):
        """The keys that it has of a pool."""
        return [key for key in self.do("get", f"/farside/{pool}/", "--prefix", "--keys-only").splitlines() if key]

    def restore(self, snapshot):
        """Has all servers begin anew from it, as its documentation says."""
        cluster = ",".join(f"{each.name}=http://{each.address}:{PEER_PORT}" for each in self.hosts)
        for host in self.hosts:
            self.kill(host)
            host.do(["rm", "-rf", "/run/etcd"])
            host.do(["env", "ETCDCTL_API=3", "etcdctl", "snapshot", "restore", snapshot, "--name", host.name, "--data-dir", "/run/etcd",
                     "--initial-cluster", cluster, "--initial-advertise-peer-urls", f"http://{host.address}:{PEER_PORT}"])
        for host in self.hosts:
            self.start(host)
        wait_for(lambda: self.ask("endpoint", "health").returncode == 0, "the servers of etcd")
