"""What a person does with a pool's store: types into its shell, and looks at its metrics."""
import os
import pathlib
import pty
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import waiting
import pool
import prometheus


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, of, *arguments):
        self.side, other = pty.openpty()
        self.process = subprocess.Popen([os.environ["FARSIDE_COMMAND"], *arguments], env={**of.environment, "TERM": "xterm"},
                                        stdin=other, stdout=other, stderr=other)
        os.close(other)
        self.expect(b"farside> ")

    def expect(self, *words):
        """Reads until it has said these, in this order."""
        said = b""
        while not re.search(b".*".join(map(re.escape, words)), said, re.DOTALL):
            if not select.select([self.side], [], [], waiting.TIMEOUT_S)[0]:
                raise TimeoutError(f"it did not say {words}, but {said}")
            said += os.read(self.side, 4096)

    def type(self, keys, reply):
        """Only when it asks again it takes keys as they are typed."""
        os.write(self.side, keys)
        self.expect(reply, b"farside> ")

    def end(self, keys):
        os.write(self.side, keys)
        code = self.process.wait(waiting.TIMEOUT_S)
        os.close(self.side)
        return code


class WithPool(unittest.TestCase):
    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--kv", "16M")
        self.addCleanup(self.pool.stop)


def has_pseudo_terminals():
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError:
        return False
    return True


class Shell(WithPool):
    @unittest.skipUnless(has_pseudo_terminals(), "there are no pseudo-terminals here")
    def test_completes_commands_and_keys_and_knows_what_was_typed_before(self):
        terminal = Terminal(self.pool, "kv", "shell")
        terminal.type(b"mse\t apple 1 pear 2\n", b"OK")  # there is msetnx as well
        terminal.type(b"get pe\t\n", b'"2"')  # there is one such key
        terminal.type(b"\x1b[A\n", b'"2"')  # once more
        self.assertEqual(terminal.end(b"quit\n"), 0)

        again = Terminal(self.pool, "kv", "shell")
        again.type(b"\x1b[A\x1b[A\n", b'"2"')  # what was typed before quit
        self.assertEqual(again.end(b"quit\n"), 0)

    def test_obeys_a_script_and_says_whether_all_of_it_went_well(self):
        ended = self.pool.run("kv", "shell", input='MSET a 1 b "x y"\nMGET a b c\n')
        self.assertEqual((ended.returncode, ended.stdout), (0, 'OK\n1) "1"\n2) "x y"\n3) (nil)\n'))
        ended = self.pool.run("kv", "shell", input='INCR b\nSET a "open\nGET a\n')
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stdout, "(error) ERR value is not an integer or out of range\n"
                         '(error) ERR Protocol error: unbalanced quotes in request\n"1"\n')


class Serve(WithPool):
    def serve(self, *arguments, **options):
        listen = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
        process = self.pool.start("kv", "serve", *listen, *arguments, **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, waiting.TIMEOUT_S)
        self.addCleanup(process.terminate)
        process.port = int(process.stdout.readline().rsplit(":", 1)[1])
        return process

    def test_metrics_are_prometheus_text(self):
        self.pool.run("kv", "put", "a", "1")
        page = self.serve("--metrics", "127.0.0.1:0").stdout.readline().split()[-1]
        text = prometheus.fetch(page)
        values = prometheus.parse(text)
        self.assertEqual(values["farside_kv_up"], 1)
        self.assertEqual(sum(values[f'farside_kv_keys{{server="{i}"}}'] for i in (0, 1)), 1)
        self.assertIn("# TYPE farside_resp_commands_total counter", text.splitlines())

    def test_metrics_tell_how_long_gets_and_puts_took(self):
        process = self.serve("--metrics", "127.0.0.1:0")
        page = process.stdout.readline().split()[-1]

        def counts():
            values = prometheus.parse(prometheus.fetch(page))
            return values["farside_kv_get_seconds_count"], values["farside_kv_put_seconds_count"]
        self.assertEqual(counts(), (0, 0))
        with socket.create_connection(("127.0.0.1", process.port), waiting.TIMEOUT_S) as client:
            replies = client.makefile("rb")
            for request, reply in ((b"SET a 1", b"+OK\r\n"), (b"GET a", b"$1\r\n1\r\n"), (b"GET b", b"$-1\r\n"), (b"PING", b"+PONG\r\n")):
                client.sendall(request + b"\r\n")
                self.assertEqual(replies.read(len(reply)), reply)
        self.assertEqual(counts(), (2, 1))

    def test_what_it_cannot_do_is_said(self):
        ended = self.pool.run("kv", "serve", "--listen", "nowhere")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("nowhere", ended.stderr)
        ended = self.pool.run("kv", "serve", "--password-file", "/nothing")
        self.assertIn("cannot be read", ended.stderr)
        for port in ("99999", "", "-1", "6379x"):
            ended = self.pool.run("kv", "serve", "--listen", "127.0.0.1:" + port)
            self.assertEqual(ended.returncode, 2)
            self.assertIn("its port is no number", ended.stderr)

    def test_other_machines_reach_it_with_a_password_only(self):
        for arguments in (("--listen", "0.0.0.0:0"), ("--listen", "[::]:0"), ("--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0")):
            ended = self.pool.run("kv", "serve", *arguments)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertIn("say --insecure", ended.stderr)
        self.serve("--listen", "0.0.0.0:0", "--insecure")
        with tempfile.NamedTemporaryFile("w") as password:
            password.write("secret\n")
            password.flush()
            self.serve("--listen", "0.0.0.0:0", "--password-file", password.name)
            os.chmod(password.name, 0o640)
            ended = self.pool.run("kv", "serve", "--listen", "127.0.0.1:0", "--password-file", password.name)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("chmod 600", ended.stderr)

    def test_it_goes_on_when_a_node_is_back(self):
        client = self.enterContext(socket.create_connection(("127.0.0.1", self.serve("--threads", "1").port)))
        client.settimeout(waiting.TIMEOUT_S)
        replies = client.makefile("rb")
        keys = [f"key:{i}" for i in range(20)]  # of both nodes

        def ask(*words):
            client.sendall((" ".join(words) + "\r\n").encode())
            return replies.readline()

        def is_written():
            return ask("MSET", *(word for key in keys for word in (key, "1"))) == b"+OK\r\n"
        self.assertTrue(is_written())
        self.pool.kill_node(1)
        waiting.wait_for(is_written, "what is written has no answer")
        self.pool.kill_node(0)
        waiting.wait_for(lambda: ask("EXISTS", *keys).startswith(b":"), "what is read has no answer")

    def test_a_stopped_node_keeps_no_client_of_others_waiting(self):
        address = ("127.0.0.1", self.serve("--threads", "1", "--timeout", f"{4 * waiting.TIMEOUT_S}s").port)

        def connect():
            client = self.enterContext(socket.create_connection(address, waiting.TIMEOUT_S))
            return client, client.makefile("rb")

        def send(client, *requests):
            client[0].sendall(b"".join(request.encode() + b"\r\n" for request in requests))

        def ask(client, request):
            send(client, request)
            return client[1].readline()
        healthy, many = connect(), connect()
        keys = [f"key:{i}" for i in range(32)]
        for key in keys:
            self.assertEqual(ask(healthy, f"SET {key} 1"), b"+OK\r\n")
        stopped = self.pool.status()["nodes"][1]["process"]
        os.kill(stopped, signal.SIGSTOP)
        self.addCleanup(os.kill, stopped, signal.SIGCONT)

        def stands_still():
            states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in pathlib.Path(f"/proc/{stopped}/task").iterdir()]
            return set(states) == {"T"}
        waiting.wait_for(stands_still, "the node does not stop")  # the signal's return says nothing of its threads
        connections = {key: connect() for key in keys}
        for key, client in connections.items():
            send(client, f"INCR {key}")
        replies = {}

        def take_replies():
            for ready in select.select([client[0] for key, client in connections.items() if key not in replies], [], [], 0)[0]:
                key = next(key for key, client in connections.items() if client[0] is ready)
                replies[key] = connections[key][1].readline()
            return len(replies)
        # All but the first of the stopped node's keys are refused: that one may be done.
        waiting.wait_for(lambda: take_replies() >= len(keys) - 1, "clients wait for the first one's time-out")
        self.assertEqual(take_replies(), len(keys) - 1)
        of_others = [key for key, reply in replies.items() if reply == b":2\r\n"]
        refused = [key for key, reply in replies.items() if reply.startswith(b"-ERR server 1 of the store, on node 1, does not answer")]
        self.assertEqual(len(of_others) + len(refused), len(replies), replies)
        self.assertTrue(of_others and refused, replies)
        began = time.monotonic()
        for _ in range(100):
            self.assertTrue(ask(healthy, f"INCR {of_others[0]}").startswith(b":"))
        send(many, *[f"INCR {refused[0]}"] * 1000)  # not one time-out after the other
        for _ in range(1000):
            self.assertIn(b"does not answer", many[1].readline())
        self.assertIn(b"does not answer", ask(many, "MSET " + " ".join(f"{key} 1" for key in keys)))
        self.assertIn(b"does not answer", ask(many, "DBSIZE"))
        self.assertEqual(ask(many, f"GET {refused[0]}"), b"$1\r\n")  # by READs alone
        self.assertEqual(many[1].readline(), b"1\r\n")
        self.assertLess(time.monotonic() - began, waiting.TIMEOUT_S)
        os.kill(stopped, signal.SIGCONT)
        last = next(key for key in keys if key not in replies)
        self.assertEqual(connections[last][1].readline(), b":2\r\n")
        waiting.wait_for(lambda: ask(many, f"INCR {refused[0]}") == b":2\r\n", "the node that goes on is not found")

    def test_it_finds_a_pool_that_was_started_anew(self):
        with tempfile.TemporaryFile("w+") as log:
            address = ("127.0.0.1", self.serve("--threads", "1", stderr=log).port)

            def connect():
                client = self.enterContext(socket.create_connection(address, waiting.TIMEOUT_S))
                return client, client.makefile("rb")

            def ask(client, *words):
                client[0].sendall((" ".join(words) + "\r\n").encode())
                return client[1].readline()
            before = connect()
            idle = connect()
            self.assertEqual(ask(before, "SET", "a", "1"), b"+OK\r\n")
            self.assertEqual(ask(idle, "PING"), b"+PONG\r\n")
            self.pool.down()

            def said():
                log.seek(0)
                return log.read()
            waiting.wait_for(lambda: ask(before, "GET", "a").startswith(b"-ERR ") and "a server of the store is lost" in said(),
                              "the log does not say that the pool is gone")
            self.pool.up()
            # None of the old pool's clients is told anything of the new one: it is disconnected.
            replies = set()
            waiting.wait_for(lambda: replies.add(reply := ask(before, "GET", "a")) or reply == b"",
                              "the new pool was not found")
            self.assertTrue(all(reply == b"" or reply.startswith(b"-ERR ") for reply in replies), replies)
            self.assertEqual(idle[1].readline(), b"")
            after = connect()
            self.assertEqual(ask(after, "GET", "a"), b"$-1\r\n")
            self.assertEqual(ask(after, "SET", "a", "2"), b"+OK\r\n")
            self.assertIn("another pool is in the place of the one before", said())

    def test_it_takes_as_many_clients_as_it_may_have_descriptors(self):
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))}
        address = ("127.0.0.1", self.serve(**few).port)
        clients = [self.enterContext(socket.create_connection(address, waiting.TIMEOUT_S)) for _ in range(100)]
        for client in clients:
            client.sendall(b"PING\r\n")
            self.assertEqual(client.recv(7), b"+PONG\r\n")


class ServeWithoutListen(unittest.TestCase):
    """In a network of its own, because another server of this machine may have the port."""
    def setUp(self):
        hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-ec", "ip link set lo up; echo up; exec sleep infinity"]
        network = self.enterContext(subprocess.Popen(hold, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.addCleanup(network.kill)
        if network.stdout.readline() != "up\n":
            self.skipTest(f"cannot make a network: {network.stderr.read().strip()}")
        inside = ["nsenter", "--net", f"--target={network.pid}"]
        self.pool = pool.Pool("--cache", "16M", "--kv", "16M", inside=inside)
        self.addCleanup(self.pool.stop)

    def test_this_user_alone_reaches_it_by_a_unix_socket(self):
        server = self.enterContext(self.pool.start("kv", "serve"))
        self.addCleanup(server.terminate)
        path = pathlib.Path(self.pool.environment["FARSIDE_RUNTIME_DIR"], "resp.sock")
        waiting.wait_for(path.exists, "there is no socket")
        for address in ("127.0.0.1:6379", path):
            self.assertEqual(server.stdout.readline(), f"serving the Redis protocol at {address}\n")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(waiting.TIMEOUT_S)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            self.assertEqual(client.makefile("rb").readline(), b"+PONG\r\n")
        server.terminate()
        self.assertEqual(server.wait(waiting.TIMEOUT_S), 0)
        self.assertFalse(path.exists())


class Examples(WithPool):
    def run_example(self, name):
        program = os.path.join(os.path.dirname(os.environ["FARSIDE_COMMAND"]), name)
        return subprocess.run([program], env=self.pool.environment, capture_output=True, text=True,
                              timeout=waiting.TIMEOUT_S, check=True).stdout

    def test_likes_agree_at_both_ends(self):
        self.assertIn("both ends agree: ", self.run_example("example_likes"))

    def test_a_mailbox_knows_what_is_unread(self):
        self.assertEqual(self.run_example("example_mailbox"), "300 mails, 0 unread, 0 not as the index said\n")


@unittest.skipIf(os.geteuid() != 0, "only root can mount a small file system")
class OnAFullDisk(unittest.TestCase):
    def setUp(self):
        self.journals = self.enterContext(tempfile.TemporaryDirectory())
        on_a_small_disk = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=4m none {self.journals} && exec "$@"', "sh")
        self.pool = pool.Pool("--cache", "16M", "--kv", "16M", "--kv-dir", self.journals, inside=on_a_small_disk)
        self.addCleanup(self.pool.stop)

    def journal(self, server):
        return self.pool.status()["kv"]["servers"][server]["journal"]

    def fill(self):
        """Puts until a server's disk is full. Returns that server, and what the refused command said."""
        for number in range(1000):
            put = self.pool.run("kv", "put", f"key{number}", "v" * 100_000)
            if put.returncode != 0:
                full = [server for server in (0, 1) if self.journal(server) == "full"]
                self.assertNotEqual(full, [])
                return full[0], put.stderr
        self.fail("the disk was never full")

    def test_everything_that_shows_the_store_says_so(self):
        serve = self.pool.start("kv", "serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
        self.addCleanup(serve.stdout.close)
        self.addCleanup(serve.wait, waiting.TIMEOUT_S)
        self.addCleanup(serve.terminate)
        page = next(line.split()[-1] for line in serve.stdout if "http" in line)
        self.assertEqual([self.journal(server) for server in (0, 1)], ["sound", "sound"])
        self.assertEqual(self.pool.run("status").returncode, 0)
        server, refusal = self.fill()
        self.assertIn("disk is full", refusal)
        status = self.pool.run("status")
        self.assertEqual(status.returncode, 1)
        self.assertIn("the disk of its journal is full", status.stdout + status.stderr)
        metrics = prometheus.parse(prometheus.fetch(page))
        self.assertEqual(metrics[f'farside_kv_journal_writable{{server="{server}"}}'], 0)
        for number in range(1000):
            self.assertEqual(self.pool.run("kv", "erase", f"key{number}").returncode, 0)
            if [self.journal(each) for each in (0, 1)] == ["sound", "sound"]:
                break
        else:
            self.fail("erasing makes no room")
        self.assertEqual(self.pool.run("kv", "put", "key", "v").returncode, 0)


if __name__ == "__main__":
    unittest.main()
