"""A pool with a node on each of two hosts, over UCX's TCP, and programs with far memory in either way, mirrored. Nodes are
killed by SIGKILL in the middle, and every byte is as it was left."""
import signal
import unittest

import hosts
from far_ways import WAYS, ForEver, below_farside_far, sorts_as_ever, with_a_heap
from waiting import TIMEOUT_S, wait_for
from pool_on_hosts import FARSIDE, Pool


class FarOnHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts(2)

    def setUp(self):
        self.pool = self.enterContext(Pool(self.hosts, hosts.SHARED, ["--far", "128M", "--kv", "16M"]))
        self.user, self.other = self.hosts

    def start(self, command, **options):
        return self.user.start(command, env=self.pool.environment, **options)

    def is_mirrored(self):
        one, other = self.pool.lent(self.user)
        return one == other > 0

    def kill_node(self, host):
        """Returns when it is back, with nothing of what it had."""
        self.pool.kill_node(host)
        self.pool.wait_for_return(host)

    def all_comes_back(self):
        wait_for(lambda: sum(self.pool.lent(self.user)) == 0, "memory does not come back")

    def test_every_byte_is_as_it_was_left(self):
        for command in [[*below_farside_far("--mirror"), "forks"], [*below_farside_far("--mirror"), "mappings"],
                        [*with_a_heap("--mirror"), "sorts"], [*with_a_heap("--mirror"), "threads"]]:
            with self.subTest(command[-1]):
                done = self.user.run(command, timeout=2 * TIMEOUT_S, env=self.pool.environment)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.all_comes_back()

    def test_nodes_are_killed_while_a_program_works(self):
        """First the other host's, then, when all lies on two again, its own host's."""
        for way in WAYS:
            with self.subTest(way.__name__):
                program = ForEver(self.start, way("--mirror"))
                self.addCleanup(program.process.communicate)
                self.addCleanup(program.kill)
                for host in [self.other, self.user]:
                    self.kill_node(host)
                    wait_for(self.is_mirrored, "it is not mirrored again")
                    self.assertTrue(program.goes_on(), "it ended")
                program.tell_to_end()
                code, errors = program.end()
                self.assertEqual(code, 128 + signal.SIGTERM, errors)
                self.assertNotIn("hammer:", errors)
                self.all_comes_back()

    def test_a_machine_is_replaced_under_another_address(self):
        """A program that was running before has its memory on both again, and new clients find the store's server."""
        program = ForEver(self.start, with_a_heap("--mirror"))
        self.addCleanup(program.process.communicate)
        self.addCleanup(program.kill)
        wait_for(self.is_mirrored, "it is not mirrored")
        self.assertEqual(self.pool.farside(self.other, ["down"]).wait(TIMEOUT_S), 0)
        self.hosts.move(self.other)
        self.assertEqual(self.pool.start_on(self.other).wait(TIMEOUT_S), 0)
        wait_for(self.is_mirrored, "it is not mirrored again")
        self.assertTrue(program.goes_on(), "it ended")
        for number in range(8):  # of both servers
            put = self.user.run([FARSIDE, "kv", "put", f"key {number}", "value"], env=self.pool.environment)
            self.assertEqual((put.returncode, put.stderr), (0, ""))

    def test_sort_sorts_while_a_node_is_killed(self):
        def lose_a_node():
            wait_for(lambda: sum(self.pool.lent(self.user)) > 0, "nothing of it is far")
            self.kill_node(self.other)

        self.assertTrue(sorts_as_ever(self.start, hosts.SHARED, lose_a_node))


if __name__ == "__main__":
    hosts.isolate()
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
