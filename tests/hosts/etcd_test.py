"""A pool with a node on each of three hosts, whose decisions are kept by servers of etcd on three others, while clients read
and write keys with two copies. Any process, server or host is killed or hangs: another machine coordinates the pool, nothing
that was acknowledged is lost, and a node that was lost comes back."""
import signal
import time
import unittest

import hosts
from etcd import PROGRAMS, Etcd
from kv_clients import AtWork
from pool_on_hosts import Pool
from waiting import TIMEOUT_S, wait_for

HANGS_S = 10
POOL = "tried"
SWITCH = None  # there is one
HOSTS = None
SERVERS = None


def setUpModule():
    global SWITCH, HOSTS, SERVERS
    SWITCH = hosts.Hosts(6)
    HOSTS = hosts.Group(SWITCH.all[:3])
    SERVERS = hosts.Group(SWITCH.all[3:])


class PoolOfEtcd(Pool):
    """No host is special."""

    def __init__(self, where, etcd, options=()):
        super().__init__(where, hosts.SHARED, options)
        self.etcd = etcd
        common = ["--authority", etcd.url(POOL), "--silence", "2s"]
        self.ways = [[*common, "--listen", f"{host.address}:7777", "--first-rank", host.index] for host in where]

    def supervisor(self, host):
        return self.status(host)["supervisor"]

    def coordinating(self):
        """The host whose process does, or None."""
        holder = self.etcd.ask("get", f"/farside/{POOL}/office/holder", "--print-value-only").stdout
        return next((host for host in self.hosts if f"{host.address}:7777" in holder), None)

    def wait_for_move_from(self, host):
        wait_for(lambda: self.coordinating() not in (None, host), f"another machine than {host.name} to coordinate")

    def kill_all_of(self, host):
        """Everything of the pool on one machine."""
        host.do(["kill", "-9", self.supervisor(host), self.node(host)["process"]])


class EtcdOnHosts(AtWork, unittest.TestCase):
    def setUp(self):
        self.hosts = HOSTS
        SWITCH.heal()
        self.etcd = self.enterContext(Etcd(SERVERS))
        self.pool = self.enterContext(PoolOfEtcd(self.hosts, self.etcd, ["--kv", "16M", "--kv-copies", "2"]))

    def expect_a_death_to_be_healed(self, host):
        """Its node's: it is decided, and another process comes in its place."""
        after = self.hosts[(host.index + 1) % 3]
        before = self.hosts[(host.index + 2) % 3]
        counts = {each: self.pool.log(each).count("have two copies again") for each in (after, before)}
        self.pool.kill_node(host)
        for each in (after, before):
            self.pool.wait_for_log(each, "have two copies again", counts[each] + 1)

    def finish(self, clients):
        self.expect_progress_of(clients)
        self.expect_good_ends_of(clients)
        self.expect_a_good_history_of(clients)

    def test_another_machine_coordinates_when_one_is_lost(self):
        clients = self.start_clients()
        lost = self.pool.coordinating()
        others = [client for client in clients if client.host is not lost]
        self.etcd.kill(SERVERS[lost.index])
        self.pool.kill_all_of(lost)
        self.pool.wait_for_move_from(lost)
        self.expect_progress_of(others)
        self.etcd.start(SERVERS[lost.index])
        self.assertEqual(self.pool.start_on(lost).wait(TIMEOUT_S), 0)
        for host in (self.hosts[(lost.index + step) % 3] for step in (1, 2)):
            self.pool.wait_for_log(host, "have two copies again")
        self.finish(clients)

    def test_a_process_that_coordinates_hangs_and_goes_on(self):
        clients = self.start_clients()
        hanging = self.pool.coordinating()
        supervisor = self.pool.supervisor(hanging)
        hanging.do(["kill", "-STOP", supervisor])
        self.pool.wait_for_move_from(hanging)
        self.expect_a_death_to_be_healed(self.pool.coordinating())
        time.sleep(HANGS_S)
        hanging.do(["kill", "-CONT", supervisor])
        self.pool.wait_for_log(hanging, "this process coordinates the pool no more")
        self.expect_a_death_to_be_healed(self.hosts[(hanging.index + 1) % 3])
        for host in self.hosts:
            self.assertNotIn("took this process for dead", self.pool.log(host))
        self.finish(clients)

    def test_a_coordinating_process_is_cut_off_from_etcd(self):
        """Its nodes find the next one, which they reach."""
        clients = self.start_clients()
        cut = self.pool.coordinating()
        for server in SERVERS:
            SWITCH.cut_both(cut, server)
        self.pool.wait_for_log(cut, "this process coordinates the pool no more: the authority does not answer")
        self.pool.wait_for_move_from(cut)
        SWITCH.heal()
        self.expect_a_death_to_be_healed(self.hosts[(cut.index + 1) % 3])
        self.finish(clients)

    def test_each_server_of_etcd_is_killed_and_hangs(self):
        clients = self.start_clients()
        for ends in (lambda host: self.etcd.kill(host), lambda host: self.etcd.signal(host, signal.SIGSTOP)):
            for server, host in zip(SERVERS, self.hosts):
                was_leader = self.etcd.leader() is server
                ends(server)
                self.expect_a_death_to_be_healed(host)
                self.expect_progress_of(clients)
                print(f"{self.id()}: {server.name}, {'the leader' if was_leader else 'a follower'}")
                if server in self.etcd.programs:
                    self.etcd.signal(server, signal.SIGCONT)
                else:
                    self.etcd.start(server)
        self.etcd.kill(self.etcd.leader())
        self.expect_a_death_to_be_healed(self.hosts[0])
        self.finish(clients)

    def test_all_of_etcd_is_lost_for_a_while(self):
        """Nothing is decided meanwhile, and everything goes on."""
        clients = self.start_clients()
        for server in SERVERS:
            self.etcd.kill(server)
        for host in self.hosts:
            self.pool.wait_for_log(host, "the authority does not answer")
        self.expect_progress_of(clients)
        time.sleep(HANGS_S)
        self.expect_progress_of(clients)
        for host in self.hosts:
            self.assertEqual(self.pool.node(host)["restarts"], 0)
        for server in SERVERS:
            self.etcd.start(server)
        self.pool.wait_for_log(self.hosts[0], "the coordinator answers again")
        self.expect_a_death_to_be_healed(self.hosts[1])
        self.finish(clients)

    def restore_older_records(self, down_s):
        snapshot = hosts.SHARED / "snapshot"
        snapshot.unlink(missing_ok=True)
        self.etcd.do("snapshot", "save", snapshot, host=SERVERS[0])
        self.expect_a_death_to_be_healed(self.hosts[2])
        for server in SERVERS:
            self.etcd.kill(server)
        time.sleep(down_s)
        self.etcd.restore(snapshot)

    def test_a_snapshot_is_restored(self):
        """It lacks what was decided since. The process that coordinates writes that anew."""
        clients = self.start_clients()
        self.restore_older_records(down_s=0)
        self.expect_a_death_to_be_healed(self.hosts[1])
        moved_from = self.pool.coordinating()
        self.pool.kill_all_of(moved_from)
        self.pool.wait_for_move_from(moved_from)  # and the next one finds it
        self.assertEqual(self.pool.start_on(moved_from).wait(TIMEOUT_S), 0)
        self.expect_no_member_to_know_more()
        self.finish(clients)

    def test_a_snapshot_is_restored_after_a_while(self):
        """No process has coordinated meanwhile: that which did before still knows what was decided."""
        clients = self.start_clients()
        coordinated = self.pool.coordinating()
        self.restore_older_records(down_s=HANGS_S)
        wait_for(lambda: self.pool.coordinating() is not None, "a machine to coordinate")
        self.pool.wait_for_log(coordinated, "the coordinator answers again")
        self.expect_a_death_to_be_healed(self.hosts[1])
        self.expect_no_member_to_know_more()
        self.finish(clients)

    def test_what_was_decided_is_lost_with_a_snapshot(self):
        """The process that coordinated, which alone knew it, is gone: no member is taken for dead for that."""
        clients = self.start_clients()
        self.restore_older_records(down_s=0)
        for host in self.hosts:
            host.do(["kill", "-9", self.pool.supervisor(host)])
        for server in SERVERS:
            self.etcd.kill(server)
        self.etcd.restore(hosts.SHARED / "snapshot")
        started = [self.pool.start_on(host) for host in self.hosts]
        for program in started:
            program.wait(TIMEOUT_S)  # it says that the nodes, which it has taken over, follow no coordinator
        self.pool.wait_for_log(self.pool.coordinating(), "members know of decisions that this coordinator lacks")
        time.sleep(HANGS_S)
        for host in self.hosts:
            self.assertNotIn("took this process for dead", self.pool.log(host))
        self.finish(clients)

    def expect_no_member_to_know_more(self):
        for host in self.hosts:
            self.assertNotIn("members know of decisions", self.pool.log(host))

    def test_all_machines_end_at_once(self):
        """And leave nothing that is in the way of others."""
        programs = [self.pool.farside(host, ["down"]) for host in self.hosts]
        self.assertEqual([program.wait(TIMEOUT_S) for program in programs], [0] * 3)
        self.assertEqual(self.etcd.records(POOL), [f"/farside/{POOL}/office/holder"])

    def test_its_history_is_compacted(self):
        clients = self.start_clients()
        revision = self.etcd.status(SERVERS[0])["header"]["revision"]
        self.etcd.do("compact", revision)
        self.etcd.do("defrag")
        self.expect_a_death_to_be_healed(self.hosts[0])
        self.finish(clients)

    def test_nothing_is_left_of_a_pool_that_has_ended(self):
        self.assertTrue(self.etcd.records(POOL))
        for host in self.hosts:
            self.assertEqual(self.pool.farside(host, ["down"]).wait(TIMEOUT_S), 0)
            if host is not self.hosts[2]:
                wait_for(lambda: self.pool.coordinating() is not None, "the next machine to coordinate")
        self.assertEqual(self.etcd.records(POOL), [f"/farside/{POOL}/office/holder"])  # of its last term
        other = self.enterContext(PoolOfEtcd(self.hosts, self.etcd))  # with other options
        self.assertEqual(other.node(self.hosts[0])["state"], "up")


class FullEtcdOnHosts(AtWork, unittest.TestCase):
    def test_its_disk_is_full(self):
        """Its database has no room: it refuses all writes until that was made. Nothing is decided meanwhile."""
        self.hosts = HOSTS
        SWITCH.heal()
        self.etcd = self.enterContext(Etcd(SERVERS, quota_bytes=16 << 20))
        self.pool = self.enterContext(PoolOfEtcd(self.hosts, self.etcd, ["--kv", "16M", "--kv-copies", "2"]))
        clients = self.start_clients()
        coordinating = self.pool.coordinating()
        junk = hosts.SHARED / "junk"
        junk.write_text("x" * 1_000_000)
        for _ in range(100):
            filled = self.hosts[0].run(["sh", "-c", f"ETCDCTL_API=3 etcdctl --endpoints {self.etcd.endpoints[0]} put junk < {junk}"])
            if "database space exceeded" in filled.stderr:
                break
        self.pool.wait_for_log(coordinating, "the authority does not answer")
        self.assertIn("database space exceeded", self.pool.log(coordinating))
        self.expect_progress_of(clients)
        revision = self.etcd.status(SERVERS[0])["header"]["revision"]
        self.etcd.do("compact", revision)
        self.etcd.do("defrag")
        self.etcd.do("alarm", "disarm")
        wait_for(lambda: self.pool.coordinating() is not None, "a machine to coordinate")
        self.pool.kill_node(self.hosts[1])
        self.pool.wait_for_return(self.hosts[1])
        self.expect_progress_of(clients)
        self.expect_good_ends_of(clients)
        self.expect_a_good_history_of(clients)


if __name__ == "__main__":
    hosts.isolate(PROGRAMS)
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
