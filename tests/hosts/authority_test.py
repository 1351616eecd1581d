"""A pool with a node on each of three hosts, whose first machine is lost for good: an operator starts its authority from a
copy on another machine, and everything goes on there."""
import json
import subprocess
import unittest

import hosts
from kv_clients import AtWork
from pool_on_hosts import FARSIDE, Pool
from waiting import TIMEOUT_S, wait_for

HOSTS = None  # there is one switch
COPY = "/run/farside/decisions.copy"


def setUpModule():
    global HOSTS
    HOSTS = hosts.Hosts(3)


class AuthorityOnHosts(AtWork, unittest.TestCase):
    def setUp(self):
        self.hosts = HOSTS
        self.hosts.heal()
        for host in self.hosts:
            host.do(["rm", "-rf", "/run/farside"])
        self.pool = self.enterContext(Pool(self.hosts, hosts.SHARED, ["--kv", "16M", "--kv-copies", "2"]))

    def farside(self, host, *words):
        return host.run([FARSIDE, *words], env=self.pool.environment)

    def status_of(self, host, *words):
        done = self.farside(host, "authority", "status", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def start_authority(self, host, *words):
        secret = hosts.SHARED / "secret"
        command = [FARSIDE, "authority", "start", *words, "--listen", f"{host.address}:7000", "--secret", secret, "--silence", "2s"]
        program = host.start(command, env=self.pool.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdout.close)
        self.assertIn("is coordinated at", program.stdout.readline())
        return program

    def lose_first_machine(self):
        first = self.hosts[0]
        first.do(["kill", "-9", self.pool.status(first)["supervisor"], self.pool.node(first)["process"]])
        for host in self.hosts.all[1:]:
            self.hosts.cut_both(first, host)

    def follow(self, where):
        for host in self.hosts.all[1:]:
            self.assertEqual(self.farside(host, "authority", "follow", f"{where.address}:7000").returncode, 0)

    def expect_all_to_find_it(self):
        for host in self.hosts.all[1:]:
            self.pool.wait_for_log(host, "the coordinator answers again")

    def test_each_other_machine_keeps_a_copy(self):
        def is_copied():
            here = self.status_of(self.hosts[0])
            return all(self.status_of(host) | {"decisions": ""} == here | {"decisions": ""} for host in self.hosts)

        wait_for(is_copied, "the copies")
        self.pool.kill_node(self.hosts[1])
        self.pool.wait_for_return(self.hosts[1])
        self.assertGreaterEqual(self.status_of(self.hosts[0])["epoch"], 2)
        wait_for(is_copied, "the copies of what was decided since")

    def test_the_authority_moves_to_another_machine(self):
        """The nodes there keep what they have. The lost machine's node comes back on a new one."""
        clients = self.start_clients()
        others = clients[1:]
        wait_for(lambda: self.status_of(self.hosts[1])["epoch"] == 0, "the copy")
        self.lose_first_machine()
        for host in self.hosts.all[1:]:
            self.pool.wait_for_log(host, "this process goes on without it")
        second = self.hosts[1]
        self.start_authority(second, "--from", COPY, "--lost", "0")
        self.follow(second)
        self.expect_all_to_find_it()
        self.pool.wait_for_log(second, "server 0 is gone; its standby, which has the only copy of its keys now, takes its place")
        self.expect_progress_of(others)
        status = self.status_of(second)
        self.assertEqual((status["generation"], [node["is_present"] for node in status["nodes"]]), (1, [False, True, True]))
        self.hosts.heal()
        clients[0].end()
        self.hosts[0].do(["rm", "-rf", "/run/farside"])  # it is another machine
        new = self.pool.farside(self.hosts[0], [*self.pool.up, "--join", f"{second.address}:7000", "--first-rank", "0"])
        self.assertEqual(new.wait(TIMEOUT_S), 0)
        for host in self.hosts.all[1:]:
            self.pool.wait_for_log(host, "have two copies again")
        self.expect_progress_of(others)
        self.expect_good_ends_of(others)
        self.expect_a_good_history_of(clients)

    def test_a_node_that_does_not_come_is_not_taken_for_dead(self):
        """The copy may lack what was decided of it. Nor after the authority was started once more."""
        wait_for(lambda: self.status_of(self.hosts[1])["epoch"] == 0, "the copy")
        self.lose_first_machine()
        second, third = self.hosts.all[1:]
        authority = self.start_authority(second, "--from", COPY)
        self.follow(second)
        self.expect_all_to_find_it()
        authority = self.restart(authority, 2)
        self.assertEqual([node["is_present"] for node in self.status_of(second)["nodes"]], [True] * 3)
        self.restart(authority, 3, "--lost", "0")
        self.pool.kill_node(third)
        self.pool.wait_for_return(third)
        self.assertEqual([node["is_present"] for node in self.status_of(second)["nodes"]], [False, True, True])

    def restart(self, authority, times, *words):
        second, third = self.hosts.all[1:]
        authority.terminate()
        authority.wait(TIMEOUT_S)
        self.pool.wait_for_log(third, "this process goes on without it", times)
        started = self.start_authority(second, *words)
        self.pool.wait_for_log(third, "the coordinator answers again", times)
        return started

    def test_the_former_authority_is_not_followed_any_more(self):
        """It goes on where it was, and its generation is lower."""
        wait_for(lambda: self.status_of(self.hosts[1])["epoch"] == 0, "the copy")
        first, second, third = self.hosts
        supervisor = self.pool.status(first)["supervisor"]
        first.do(["kill", "-STOP", supervisor])
        for host in (second, third):
            self.pool.wait_for_log(host, "this process goes on without it")
        self.start_authority(second, "--from", COPY)
        self.follow(second)
        self.expect_all_to_find_it()
        first.do(["kill", "-CONT", supervisor])
        self.assertEqual(self.farside(third, "authority", "follow", f"{first.address}:7777").returncode, 0)
        self.pool.kill_node(second)  # which has third know a later epoch, too
        self.pool.wait_for_return(second)
        self.assertEqual(self.status_of(second)["generation"], 1)
        self.assertNotIn("took this process for dead", self.pool.log(third))


if __name__ == "__main__":
    hosts.isolate()
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
