"""Clients on hosts that put and get sets of keys, write down what they were told, and check what they read."""
import os
import queue
import subprocess
import threading

import hosts
from pool_on_hosts import FARSIDE
from waiting import TIMEOUT_S

KV_WORK = os.environ["FARSIDE_KV_WORK"]
ENOUGH = 3  # hundreds of calls, before something happens and after it


class Client:
    """At work on a host until it is told to end."""

    def __init__(self, pool, host):
        self.host = host
        self.history = hosts.SHARED / f"history-{host.index}"
        self.history.unlink(missing_ok=True)
        self.errors = hosts.SHARED / f"errors-{host.index}"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors.open("w"), "text": True}
        self.program = host.start([KV_WORK, self.history, host.index], env=pool.environment, **pipes)
        self.said = queue.Queue()  # its lines; None: it said its last
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.program.stdout:
            self.said.put(line)
        self.said.put(None)

    def next_line(self):
        try:
            return self.said.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise AssertionError(f"the client of {self.host.name} says nothing: {self.errors.read_text()}") from None

    def await_progress(self):
        for _ in range(ENOUGH):
            if self.next_line() is None:
                code = self.program.wait(TIMEOUT_S)
                raise AssertionError(f"the client of {self.host.name} ended with {code}: {self.errors.read_text()}")

    def end(self):
        """Its exit code, and what it said last."""
        self.program.stdin.close()
        last = ""
        while (line := self.next_line()) is not None:
            last = line.rstrip()
        return self.program.wait(TIMEOUT_S), last


class AtWork:
    """Of a test with `hosts` and a `pool`."""

    def start_clients(self):
        clients = [Client(self.pool, host) for host in self.hosts]
        for client in clients:
            self.addCleanup(client.program.kill)
            client.await_progress()
        return clients

    def expect_progress_of(self, clients):
        """For well longer than it takes until a death is known and a standby serves."""
        for client in clients:
            client.await_progress()

    def expect_good_ends_of(self, clients):
        for client in clients:
            code, said = client.end()
            print(f"{self.id()}: {client.host.name}: {said}")
            self.assertEqual(code, 0, said)
            self.assertIn("failed gets 0, all there", said)

    def expect_a_good_history_of(self, clients):
        files = [client.history for client in clients]
        checked = self.hosts[0].run([FARSIDE, "kv", "check", *files], env=self.pool.environment)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
