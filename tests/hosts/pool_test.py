"""A pool with a node on each of four hosts, over UCX's TCP. Links are cut and healed, and nodes killed, while programs
read: they get the right bytes, soon, and the logs say who could not be reached."""
import hashlib
import os
import random
import signal
import subprocess
import time
import unittest

import hosts
import workbench
from waiting import TIMEOUT_S, wait_for
from pool_on_hosts import FARSIDE, Pool

PLUGIN = workbench.BIN.parent / "lib/nbdkit/plugins/nbdkit-farside-plugin.so"
DIGESTS = "find . -type f -print0 | sort -z | xargs -0 sha256sum"


class PoolOnHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts(4)
        cls.files = hosts.FileServer("files", cls.hosts)
        dice = random.Random(4)
        cls.digests = {}
        cls.large = cls.make_files("large", [dice.randrange(300_000) for _ in range(40)])
        cls.small = cls.make_files("small", [dice.randrange(1, 10_000) for _ in range(200)])
        time.sleep(workbench.SETTLED_S)

    @classmethod
    def make_files(cls, directory, sizes):
        """Their names."""
        (cls.files.source / directory).mkdir()
        names = [f"{directory}/file {number}" for number in range(len(sizes))]
        for name, size in zip(names, sizes):
            content = random.Random(name).randbytes(size)
            (cls.files.source / name).write_bytes(content)
            cls.digests[name] = hashlib.sha256(content).hexdigest()
        return names

    def setUp(self):
        self.hosts.heal()
        self.pool = self.enterContext(Pool(self.hosts, self.files.mountpoint))
        self.asked_before = self.files.bytes_read()

    def start_readers(self):
        return [self.enterContext(self.pool.reader(host)) for host in self.hosts]

    def bytes_asked_for(self):
        """Of the file system, by each host, since the test began."""
        return [now - before for now, before in zip(self.files.bytes_read(), self.asked_before)]

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

    def wait_until_shared(self, one, other, names):
        """Until what one host has read comes from there to the other. No host has read these files before."""
        new = iter(names)

        def is_shared():
            time.sleep(0.5)
            name = next(new)
            before = self.bytes_asked_for()[other.index]
            for host in (one, other):
                with self.pool.reader(host) as reader:
                    self.read([reader], [name])
            return self.bytes_asked_for()[other.index] == before

        wait_for(is_shared, f"{one.name} and {other.name} to share")

    def kv(self, host, command, *words):
        done = host.run([FARSIDE, "kv", command, "--timeout", "60s", *words], env=self.pool.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_one_host_puts_every_other_gets(self):
        """Whichever of them has it; also by the address of a server alone, and after a node died and came back, empty."""
        self.pool.__exit__()
        self.pool = self.enterContext(Pool(self.hosts, self.files.mountpoint, ["--kv", "16M"]))
        keys = [f"key:{number}" for number in range(20)]
        pairs = [word for number, key in enumerate(keys) for word in (key, number)]
        first, second, third, fourth = self.hosts
        expected = "".join(f"{key} {number}\n" for number, key in enumerate(keys))
        self.kv(first, "mput", *pairs)
        for host in self.hosts:
            self.assertEqual(self.kv(host, "mget", *keys), expected)
        server = ["--server", f"{second.address}:7779", "--secret", hosts.SHARED / "secret"]
        self.assertEqual(self.kv(fourth, "mget", *server, *keys), expected)
        self.pool.kill_node(third)
        self.pool.wait_for_return(third)
        self.kv(second, "mput", *pairs)
        self.assertEqual(self.kv(fourth, "mget", *keys), expected)

    def test_it_listens_on_the_network_where_its_hosts_meet_alone(self):
        """Not on the loopback device, which each host has as well."""
        for host in self.hosts:
            listening = [line.split()[3] for line in host.do(["ss", "-Hltn"]).splitlines()]
            self.assertTrue(listening)
            self.assertEqual({address.rpartition(":")[0] for address in listening}, {host.address})

    def test_a_mirrored_device_outlives_a_host(self):
        """It lies on the memory of four, and is not made before it was said what a loss means."""
        self.pool.__exit__()
        self.pool = self.enterContext(Pool(self.hosts, self.files.mountpoint, ["--far", "32M"]))
        user, lost, *_ = self.hosts
        socket, image, back = [hosts.SHARED / name for name in ("device", "image", "back")]
        image.write_bytes(random.Random("image").randbytes(24 << 20))
        serve = ["nbdkit", "--foreground", "--unix", socket, PLUGIN, "size=24M"]
        undecided = user.run(serve, env=self.pool.environment)
        self.assertEqual(undecided.returncode, 1)
        self.assertIn("choose to mirror", undecided.stderr)

        device = user.start([*serve, "mirror=true"], env=self.pool.environment)
        wait_for(socket.exists, "nbdkit to serve")
        user.do(["nbdcopy", image, f"nbd+unix:///?socket={socket}"])
        self.pool.kill_node(lost)
        user.do(["nbdcopy", f"nbd+unix:///?socket={socket}", back])
        self.pool.wait_for_return(lost)
        user.do(["nbdcopy", f"nbd+unix:///?socket={socket}", back])
        self.assertEqual(back.read_bytes(), image.read_bytes())
        device.terminate()
        self.assertEqual(device.wait(TIMEOUT_S), 0)

    def test_all_read_one_tree_and_the_file_system_is_asked_for_each_byte_once(self):
        expected = subprocess.run(["sh", "-c", DIGESTS], cwd=self.files.source, capture_output=True, check=True).stdout
        programs = [self.pool.exec_on(host, ["sh", "-c", DIGESTS], stdout=subprocess.PIPE) for host in self.hosts]
        for program in programs:
            self.assertEqual(program.communicate(timeout=TIMEOUT_S)[0], expected)
        asked = self.bytes_asked_for()
        if sum(asked) != workbench.size(self.files.source):
            said = [f"{host.name} asked for {asked[host.index]} bytes; its log:\n{self.pool.log(host)}" for host in self.hosts]
            self.fail("\n".join([f"{sum(asked)} != {workbench.size(self.files.source)}", *said]))

    def test_two_nodes_are_killed_at_once_while_all_read(self):
        readers = self.start_readers()
        self.read(readers, self.large[:10])
        self.ask(readers, self.large)
        killed = [self.hosts[1], self.hosts[3]]
        for host in killed:
            self.pool.kill_node(host)
        self.expect_answers(readers, self.large)
        for host in killed:
            self.pool.wait_for_log(self.hosts[0], f"rank {host.index} is lost")
            self.pool.wait_for_return(host)
        self.wait_until_shared(*killed, self.small)

    def expect_no_restart(self, hosts):
        for host in hosts:
            node = self.pool.node(host)
            self.assertEqual((node["state"], node["restarts"]), ("up", 0), self.pool.log(host))

    def with_keys(self, count=40):
        """A pool with a key-value store, and keys in it. Those of its servers 1 and 3 are not on the meeting host."""
        self.pool.__exit__()
        self.pool = self.enterContext(Pool(self.hosts, self.files.mountpoint, ["--kv", "16M"]))
        keys = [f"key:{number}" for number in range(count)]
        for key in keys:
            self.kv(self.hosts[1], "put", key, f"value of {key}")
        return keys

    def kept(self, host, keys):
        """Those of the keys that have the value that was set."""
        return [key for key in keys if self.kv_or_nothing(host, key) == f"value of {key}"]

    def kv_or_nothing(self, host, key):
        return host.run([FARSIDE, "kv", "get", key], env=self.pool.environment).stdout.rstrip("\n")

    def test_the_host_where_they_meet_fails_and_starts_again(self):
        """All nodes go on meanwhile, its own as well, and keep what they have."""
        keys = self.with_keys()
        meeting, *others = self.hosts
        readers = [self.enterContext(self.pool.reader(host)) for host in others]
        self.read(readers, self.large[:10])
        self.ask(readers, self.large)
        meeting.do(["kill", "-9", self.pool.status(meeting)["supervisor"]])
        self.expect_answers(readers, self.large)
        for host in others:
            self.pool.wait_for_log(host, "this process goes on without it")
        self.assertEqual(self.kept(others[0], keys), keys)
        self.assertEqual(self.pool.start_on(meeting).wait(TIMEOUT_S), 0)
        for host in self.hosts:
            self.pool.wait_for_log(host, "the coordinator answers again")
        self.expect_no_restart(self.hosts)
        self.wait_until_shared(meeting, others[-1], self.small)
        self.assertEqual(self.kept(others[0], keys), keys)

    def lose_supervisors(self, where):
        for host in where:
            host.do(["kill", "-9", self.pool.status(host)["supervisor"]])
        for host in where:
            wait_for(lambda at=host: self.pool.status(at)["supervisor"] is None, f"the supervisor of {host.name} to end")

    def start_again(self, where):
        started = [self.pool.start_on(host) for host in where]
        self.assertEqual([program.wait(TIMEOUT_S) for program in started], [0] * len(where))

    def test_hosts_lose_their_supervisors(self):
        """One host does, and then all at once; the nodes go on, and are taken over. One whose supervisor was taken over is
        noticed when it dies, and is started again."""
        keys = self.with_keys(12)
        meeting, other, *_ = self.hosts
        processes = {host.name: self.pool.node(host)["process"] for host in self.hosts}
        for lost in ([other], list(self.hosts)):
            self.lose_supervisors(lost)
            self.assertEqual(self.kept(other, keys), keys)
            self.start_again(lost)
            self.expect_no_restart(self.hosts)
        self.assertEqual({host.name: self.pool.node(host)["process"] for host in self.hosts}, processes)
        self.assertEqual(self.kept(other, keys), keys)
        for host in self.hosts:
            self.assertNotIn(" is lost", self.pool.log(host))
        self.pool.kill_node(other)
        self.pool.wait_for_log(meeting, "rank 1 is lost")
        self.pool.wait_for_return(other)
        for host in self.hosts:
            wait_for(lambda at=host: self.pool.status(at)["problems"] == [], f"all to be well on {host.name}")

    def test_the_process_where_they_meet_hangs(self):
        """For longer than silence is borne: no node is restarted for it, and none is empty afterwards."""
        keys = self.with_keys()
        meeting, *others = self.hosts
        supervisor = self.pool.status(meeting)["supervisor"]
        os.kill(supervisor, signal.SIGSTOP)
        for host in self.hosts:
            self.pool.wait_for_log(host, "this process goes on without it")
        self.assertEqual(self.kept(others[0], keys), keys)
        self.assertIn("the coordinator", "".join(self.pool.status(others[0])["problems"]))
        os.kill(supervisor, signal.SIGCONT)
        for host in self.hosts:
            self.pool.wait_for_log(host, "the coordinator answers again")
        self.expect_no_restart(self.hosts)
        self.assertEqual(self.pool.status(others[0])["problems"], [])
        self.assertEqual(self.kept(others[0], keys), keys)
        for host in self.hosts:
            self.assertNotIn(" is lost", self.pool.log(host))
        self.pool.kill_node(others[0])  # deaths are noticed again
        self.pool.wait_for_log(meeting, "rank 1 is lost")
        self.pool.wait_for_return(others[0])

    def test_nodes_that_were_held_up_blame_no_other(self):
        """As when the machine below virtual ones pauses them all, for longer than silence is borne."""
        status = [self.pool.status(host) for host in self.hosts]
        processes = [pool["supervisor"] for pool in status] + [pool["nodes"][0]["process"] for pool in status]
        for sent in (signal.SIGSTOP, signal.SIGCONT):
            for process in processes:
                os.kill(process, sent)
            time.sleep(3)
        for host in self.hosts:
            self.assertNotIn(" is lost", self.pool.log(host))
            self.assertNotIn("cut off", self.pool.log(host))

    def read_while(self, cut, one, other):
        """All read, from before the link is cut until well after. It takes them little longer than to find that out."""
        readers = self.start_readers()
        self.read(readers, self.large[:10])
        self.ask(readers, self.large)
        cut(one, other)
        self.expect_answers(readers, self.large)
        began = time.monotonic()
        self.read(readers, self.small[:80])
        self.assertLess(time.monotonic() - began, TIMEOUT_S / 2)

    def two_cannot_reach_each_other(self, cut):
        """They are in touch with all others; so to the pool they are alive."""
        _, one, other, _ = self.hosts
        self.read_while(cut, one, other)
        self.pool.wait_for_log(one, "rank 2 does not answer")
        self.pool.wait_for_log(other, "rank 1 does not answer")
        self.hosts.heal()
        self.wait_until_shared(one, other, self.small[80:])

    def test_two_cannot_reach_each_other(self):
        self.two_cannot_reach_each_other(self.hosts.cut_both)

    def test_two_cannot_reach_each_other_since_one_direction_is_cut(self):
        self.two_cannot_reach_each_other(self.hosts.cut)

    def one_is_cut_off(self, cut, sender, receiver):
        """One of the two is the host where the nodes meet. The other's node drops out of the pool. It learns of that when
        the link is healed, and is started again."""
        meeting, cut_off = self.hosts[0], self.hosts[3]
        self.read_while(cut, sender, receiver)
        for host in self.hosts.all[:3]:
            self.pool.wait_for_log(host, "rank 3 is lost")
        self.hosts.heal()
        self.pool.wait_for_log(cut_off, "cut off from rank 0, rank 1, rank 2")
        self.pool.wait_for_return(cut_off)
        self.wait_until_shared(meeting, cut_off, self.small[80:])

    def test_one_is_cut_off(self):
        self.one_is_cut_off(self.hosts.cut_both, self.hosts[0], self.hosts[3])

    def test_one_is_not_heard(self):
        self.one_is_cut_off(self.hosts.cut, self.hosts[3], self.hosts[0])

    def test_one_hears_nothing(self):
        self.one_is_cut_off(self.hosts.cut, self.hosts[0], self.hosts[3])


if __name__ == "__main__":
    hosts.isolate()
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
