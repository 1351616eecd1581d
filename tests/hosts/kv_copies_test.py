"""A pool with a node on each of four hosts, over UCX's TCP, that keeps two copies of keys and values. A node is killed, or
its host cut off, while clients on all hosts read and write: nothing that was acknowledged is lost, what they saw is
Read Atomic, and they go on; but not who was cut off itself."""
import shutil
import unittest

import hosts
from kv_clients import AtWork
from pool_on_hosts import FARSIDE, Pool
from waiting import TIMEOUT_S, wait_for

HOSTS = None  # there is one switch


def setUpModule():
    global HOSTS
    HOSTS = hosts.Hosts(4)


class KvCopiesOnHosts(AtWork, unittest.TestCase):
    def setUp(self):
        self.hosts = HOSTS
        self.hosts.heal()
        self.pool = self.enterContext(Pool(self.hosts, hosts.SHARED, ["--kv", "16M", "--kv-copies", "2"]))

    def expect_to_serve_newcomers(self, host):
        for command in (["put", "new", "1"], ["get", "new"]):
            done = host.run([FARSIDE, "kv", *command], env=self.pool.environment)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_node_is_killed(self):
        clients = self.start_clients()
        self.pool.kill_node(self.hosts[2])
        self.expect_progress_of(clients)
        self.pool.wait_for_log(self.hosts[3], "server 2 is gone; its standby, which has the only copy of its keys now, takes its place")
        self.pool.wait_for_log(self.hosts[1], "the standby of server 1 is gone")
        self.expect_progress_of(clients)
        self.expect_good_ends_of(clients)
        self.expect_a_good_history_of(clients)
        self.expect_to_serve_newcomers(self.hosts[0])
        self.pool.wait_for_log(self.hosts[1], "the keys of server 1 have two copies again")
        self.expect_to_serve_newcomers(self.hosts[2])  # from the node there, which was started again

    def test_one_node_after_the_other_is_killed(self):
        """Each when all copies have been made again: so roles go from seat to seat, and back."""
        clients = self.start_clients()
        for dies, (before, after) in ((2, (1, 3)), (3, (2, 0)), (2, (1, 3))):
            counts = [self.pool.log(host).count("have two copies again") for host in self.hosts]
            self.pool.kill_node(self.hosts[dies])
            self.expect_progress_of(clients)
            for host in (before, after):
                self.pool.wait_for_log(self.hosts[host], "have two copies again", counts[host] + 1)
        self.expect_progress_of(clients)
        self.expect_good_ends_of(clients)
        self.expect_a_good_history_of(clients)
        for host in self.hosts:
            self.expect_to_serve_newcomers(host)

    def test_the_connection_to_a_standby_breaks(self):
        """And both live. It is made anew; so what is acknowledged afterwards is there when the primary is killed."""
        clients = self.start_clients()
        primary, standby = self.hosts[1], self.hosts[2]
        if not self.pool.break_connections(primary, standby):
            self.skipTest("this kernel ends no connections")
        self.pool.wait_for_log(primary, "the connection to the standby of server 1 broke, and was made anew")
        self.expect_progress_of(clients)
        self.expect_progress_of(clients)
        self.pool.kill_node(primary)
        self.pool.wait_for_log(standby, "server 1 is gone; its standby, which has the only copy of its keys now, takes its place")
        self.expect_progress_of(clients)
        self.expect_good_ends_of(clients)
        self.expect_a_good_history_of(clients)

    def test_a_host_is_cut_off(self):
        """From all others. Its client reaches its primary alone, and must not believe it."""
        *others, lost = clients = self.start_clients()
        for host in self.hosts.all[:3]:
            self.hosts.cut_both(host, lost.host)
        self.pool.wait_for_log(self.hosts[0], "server 3 is gone; its standby, which has the only copy of its keys now, takes its place")
        self.pool.wait_for_log(self.hosts[2], "the standby of server 2 is gone")
        self.pool.wait_for_log(lost.host, "this process goes on without it")
        self.expect_progress_of(others)
        self.expect_progress_of(others)
        self.expect_good_ends_of(others)
        self.expect_to_serve_newcomers(self.hosts[1])
        self.hosts.heal()
        lost.end()
        self.expect_a_good_history_of(clients)
        self.pool.wait_for_log(self.hosts[0], "the keys of server 3 have two copies again")
        self.pool.wait_for_log(self.hosts[2], "the keys of server 2 have two copies again")
        self.assertNotIn("takes its place", self.pool.log(lost.host))
        self.assertNotIn("the standby of server 3 is gone", self.pool.log(lost.host))

    def test_a_node_is_taken_for_dead_and_reached_by_clients(self):
        """Its link to where the nodes meet is cut, that to its standby not, nor those to other clients."""
        meeting, lost, standby, _ = clients = self.start_clients()
        others = [client for client in clients if client is not lost]
        self.hosts.cut_both(meeting.host, lost.host)
        self.pool.wait_for_log(standby.host, "server 1 is gone; its standby, which has the only copy of its keys now, takes its place")
        self.expect_progress_of(others)
        self.expect_progress_of(others)
        self.expect_good_ends_of(others)
        self.hosts.heal()
        lost.end()
        self.expect_a_good_history_of(clients)


class KvCopiesOnDisksOfHosts(unittest.TestCase):
    """The same with a journal for each copy: both servers of a partition may end at once."""

    def setUp(self):
        self.hosts = HOSTS
        self.hosts.heal()
        self.disk = hosts.SHARED / "disk"
        shutil.rmtree(self.disk, ignore_errors=True)
        options = ["--kv", "16M", "--kv-copies", "2", "--kv-dir", self.disk, "--kv-sync", "always"]
        self.pool = self.enterContext(Pool(self.hosts, hosts.SHARED, options))
        self.keys = [f"key {number}" for number in range(16)]

    def kv(self, host, *command):
        return host.run([FARSIDE, "kv", *command], env=self.pool.environment)

    def put_all(self, value):
        for number, key in enumerate(self.keys):
            done = self.kv(self.hosts[number % 4], "put", key, value)
            self.assertEqual(done.returncode, 0, done.stderr)

    def expect_all(self, value):
        for number, key in enumerate(self.keys):
            wait_for(lambda: self.kv(self.hosts[number % 4], "get", key).returncode == 0, f"{key} to be there")
            self.assertEqual(self.kv(self.hosts[number % 4], "get", key).stdout, value)

    def wait_for_two_copies(self):
        wait_for(lambda: self.hosts[0].run([FARSIDE, "status"], env=self.pool.environment).returncode == 0, "two copies")

    def test_both_servers_of_a_partition_are_killed(self):
        for value, killed in (("one", (1, 2)), ("two", (2, 3, 0)), ("three", (0, 1, 2, 3))):
            self.wait_for_two_copies()
            self.put_all(value)
            for index in killed:
                self.pool.kill_node(self.hosts[index])
            self.expect_all(value)

    def test_a_machine_is_gone_for_good(self):
        """The other server of its partitions goes on alone, also when it is killed afterwards: its disk says that the
        other one has nothing more."""
        self.wait_for_two_copies()
        gone, alone = self.hosts[2], self.hosts[1]
        gone.do(["kill", "-9", self.pool.status(gone)["supervisor"], self.pool.node(gone)["process"]])
        self.pool.wait_for_log(alone, "the standby of server 1 is gone")
        self.pool.wait_for_log(self.hosts[3], "server 2 is gone; its standby, which has the only copy of its keys now")
        self.keys = [key for key in self.keys if self.kv(alone, "put", key, "value").returncode == 0]
        self.assertEqual(len(self.keys), 16)
        self.pool.kill_node(alone)
        for key in self.keys:
            wait_for(lambda: self.kv(self.hosts[0], "get", key).stdout == "value", f"{key} to be there")

    def test_all_machines_are_started_again(self):
        self.wait_for_two_copies()
        self.put_all("value")
        for program in [self.pool.farside(host, ["down"]) for host in self.hosts]:
            program.wait(TIMEOUT_S)
        for program in [self.pool.start_on(host) for host in self.hosts]:
            self.assertEqual(program.wait(TIMEOUT_S), 0)
        self.expect_all("value")
        self.wait_for_two_copies()


if __name__ == "__main__":
    hosts.isolate()
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
