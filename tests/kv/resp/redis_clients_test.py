"""The Redis protocol as Redis's own programs and a client library speak it, and as Redis itself answers it: in front of
keys in memory, or, when FARSIDE_COMMAND says where the command is, of a pool's store."""
import os
import pathlib
import random
import socket
import subprocess
import tempfile
import time
import unittest

import redis

import waiting
import pool

TIMEOUT_S = waiting.TIMEOUT_S


class StoreServer:
    """`farside kv serve` in front of a pool of its own."""

    def __init__(self, threads, password=None):
        self.pool = pool.Pool("--cache", "16M", "--kv", "64M")
        arguments = ["--threads", threads, "--listen", "127.0.0.1:0"]
        if password is not None:
            file = pathlib.Path(self.pool.directory.name, "password")
            file.touch(mode=0o600)
            file.write_text(password + "\n", encoding="ascii")
            arguments += ["--password-file", str(file)]
        self.process = self.pool.start("kv", "serve", *arguments)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        self.process.stdout.close()
        code = self.process.wait(TIMEOUT_S)
        self.pool.stop()
        return code


class MemoryServer:
    """It ends when its standard input does, so also when this process dies."""

    def __init__(self, *arguments):
        server = os.environ["FARSIDE_MEMORY_SERVER"]
        self.process = subprocess.Popen([server, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(TIMEOUT_S)


class Oracle:
    """A Redis on a Unix socket, with nothing on disk but that."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = self.directory.name + "/socket"
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", "0", "--unixsocket", self.path, "--save", "",
             "--databases", "1", "--dir", self.directory.name], stdout=subprocess.DEVNULL)
        waiting.wait_for(lambda: os.path.exists(self.path), "redis-server did not start")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True, **options).stdout


class WithServer(unittest.TestCase):
    arguments = ("1",)

    def setUp(self):
        self.server = (StoreServer if "FARSIDE_COMMAND" in os.environ else MemoryServer)(*self.arguments)
        self.addCleanup(lambda: self.assertEqual(self.server.stop(), 0))

    def cli(self, *arguments, **options):
        return run("redis-cli", "-p", str(self.server.port), *arguments, **options)


class Programs(WithServer):
    arguments = ("2",)

    def test_redis_cli_runs_single_commands(self):
        self.assertEqual(self.cli("set", "a", "b c"), "OK\n")
        self.assertEqual(self.cli("get", "a"), "b c\n")

    def test_redis_cli_runs_a_script(self):
        script = 'MULTI\nSET a 1\nINCR a\nEXEC\nMGET a none\nSELECT 1\nTTL a\n'
        replies = "OK\nQUEUED\nQUEUED\nOK\n2\n2\n\nERR DB index is out of range\n\n-1\n"
        self.assertEqual(self.cli(input=script), replies)

    def test_redis_cli_scans_and_pipes(self):
        requests = "".join(f"SET key:{i} {i}\r\n" for i in range(1000))
        self.assertIn("errors: 0, replies: 1000", self.cli("--pipe", input=requests))
        self.assertEqual(set(self.cli("--scan", "--pattern", "key:9?").split()), {f"key:{i}" for i in range(90, 100)})

    def test_redis_benchmark_runs_without_an_error(self):
        for pipeline in ("1", "16"):
            out = run("redis-benchmark", "-p", str(self.server.port), "-t", "ping,set,get,incr,mset", "-n", "2000", "-c",
                      "50", "-P", pipeline, "--csv")
            self.assertEqual(len(out.splitlines()), 7, out)  # a heading, two ways to ping, and the rest


class Library(WithServer):
    def setUp(self):
        super().setUp()
        self.client = redis.Redis(port=self.server.port)
        self.addCleanup(self.client.close)

    def test_values_of_any_bytes(self):
        value = bytes(range(256)) * 100
        self.client.set(b"\x00\r\n", value)
        self.assertEqual(self.client.get(b"\x00\r\n"), value)

    def test_it_knows_its_clients(self):
        self.client.client_setname("me")
        names = [client["name"] for client in (self.client.client_info(), *self.client.client_list())]
        self.assertEqual(names, ["me", "me"])
        self.assertEqual(self.client.info("clients")["connected_clients"], 1)

    def test_a_pipeline_is_a_transaction(self):
        with self.client.pipeline(transaction=True) as pipeline:
            replies = pipeline.mset({"a": 1, "b": 2}).incr("a").get("a").execute()
        self.assertEqual(replies, [True, 2, b"2"])

    def test_keys_expire(self):
        self.client.set("a", 1, px=1)
        waiting.wait_for(lambda: self.client.get("a") is None, "it did not expire")
        self.assertEqual(self.client.ttl("a"), -2)

    def test_scan_finds_every_key_once(self):
        self.client.mset({f"k{i}": i for i in range(100)})
        self.assertEqual(sorted(self.client.scan_iter(count=7)), sorted(f"k{i}".encode() for i in range(100)))

    def test_garbage_harms_no_other_client(self):
        random.seed(7)
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", self.server.port)) as rude:
                rude.sendall(random.choice([b"*", b"$", b"SET ", b"*3\r\n$"]) + random.randbytes(200))
        self.assertTrue(self.client.ping())


class Password(WithServer):
    arguments = ("1", "secret")

    def test_is_asked_for(self):
        with self.assertRaises(redis.AuthenticationError):
            redis.Redis(port=self.server.port).get("a")
        with self.assertRaisesRegex(redis.ResponseError, "WRONGPASS"):
            redis.Redis(port=self.server.port, password="wrong").get("a")
        self.assertIsNone(redis.Redis(port=self.server.port, password="secret").get("a"))
        self.assertEqual(self.cli("-a", "secret", "--no-auth-warning", "ping"), "PONG\n")


def exchange(connection, words):
    """The reply as its bytes say it, an error as its text."""
    connection.send_command(*words)
    try:
        return connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return f"{type(error).__name__}: {error}"


class RandomCommands:
    """Commands on few keys, so that they meet; some are wrong. What lists keys is not in a MULTI: there it differs."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.queuing = False

    def next(self):
        words = self.command()
        while self.queuing and words[0] in ("KEYS", "SCAN", "DBSIZE"):
            words = self.command()
        self.queuing = words[0] == "MULTI" or self.queuing and words[0] not in ("EXEC", "DISCARD")
        return words

    def key(self):
        return "k" + str(self.random.randrange(6))

    def value(self):
        return self.random.choice(["", "x", "12", "-7", "9223372036854775807", "0012", "a b", "é", "long" * 50])

    def number(self):
        return self.random.choice(["1", "100", "1000000", "0", "-1", "x", "9223372036854775807", "-9223372036854775808"])

    def some(self, make):
        return [word for _ in range(self.random.randrange(1, 4)) for word in make()]

    def options(self, *options):
        chosen = self.random.sample(options, self.random.choice([0, 1, 1, 2]))
        return [word for option in chosen for word in option()]

    def expiry(self):
        times = lambda: [self.random.choice(["EX", "PX"]), self.random.choice(["1000", "100000", "0", "-5", "x"])]
        return lambda: self.random.choice([1, 1, 1, 2]) * times()

    def far_time(self):
        return self.random.choice(["1000", "100000", "5000000", "-1", "x", "9223372036854775807"])

    def command(self):
        one = lambda word: lambda: [word]
        key = lambda: [self.key()]
        return self.random.choice([
            lambda: ["GET", self.key()],
            lambda: ["SET", self.key(), self.value(),
                     *self.options(one("NX"), one("xx"), one("GET"), one("KEEPTTL"), self.expiry(), one("ODD"))],
            lambda: ["SETNX", self.key(), self.value()],
            lambda: ["SETEX", self.key(), self.far_time(), self.value()],
            lambda: ["PSETEX", self.key(), "100000", self.value()],
            lambda: ["GETSET", self.key(), self.value()],
            lambda: ["GETDEL", self.key()],
            lambda: ["GETEX", self.key(), *self.options(one("PERSIST"), self.expiry())],
            lambda: ["MGET", *self.some(key)],
            lambda: ["MSET", *self.some(lambda: [self.key(), self.value()])],
            lambda: ["MSET", self.key(), self.value(), self.key()],
            lambda: ["MSETNX", *self.some(lambda: [self.key(), self.value()])],
            lambda: [self.random.choice(["DEL", "UNLINK", "EXISTS", "TOUCH"]), *self.some(key)],
            lambda: [self.random.choice(["INCR", "DECR", "STRLEN", "TYPE", "PERSIST", "TTL", "EXPIRETIME"]), self.key()],
            lambda: [self.random.choice(["INCRBY", "DECRBY"]), self.key(), self.number()],
            lambda: ["APPEND", self.key(), self.value()],
            lambda: ["EXPIRE", self.key(), self.far_time(), *self.options(one("NX"), one("XX"), one("GT"), one("lt"))],
            lambda: ["PEXPIREAT", self.key(), self.random.choice(["1", "4000000000000", "x"])],
            lambda: ["KEYS", self.random.choice(["*", "k[0-2]", "k?", "[^k]*", "k\\1", "*1*", "k[", "?[3-1]"])],
            lambda: ["SCAN", "0", "COUNT", self.random.choice(["1000", "0", "x"])],
            lambda: ["DBSIZE"],
            lambda: [self.random.choice(["PING", "ECHO", "SELECT"]), self.value()],
            lambda: [self.random.choice(["MULTI", "EXEC", "DISCARD", "GET", "NOTHING", "SET"])],
            lambda: [self.random.choice(["MULTI", "EXEC", "DISCARD", "AUTH", "HELLO"]), self.random.choice(["x", "1"])],
            lambda: ["CLIENT", self.random.choice(["GETNAME", "GETNAME", "SETNAME", "ODD"])],
            lambda: ["CONFIG", "GET", *self.random.choice([["databases"], ["databases"], []])],
        ])()


class LikeRedis(WithServer):
    def test_every_reply_is_what_redis_replies(self):
        oracle = Oracle()
        self.addCleanup(oracle.stop)
        for seed in range(20):
            ours = redis.Connection(port=self.server.port)
            theirs = redis.UnixDomainSocketConnection(path=oracle.path)
            commands = RandomCommands(seed)
            history = []
            for words in [["FLUSHALL"]] + [commands.next() for _ in range(400)]:
                history.append(words)
                replies = [exchange(ours, words), exchange(theirs, words)]
                self.assertTrue(same(words, *replies), (seed, replies, history[-20:]))
            ours.disconnect()
            theirs.disconnect()


def same(words, ours, theirs):
    """Keys have no order; time passes between the two, so what is left of it may differ a little."""
    if isinstance(ours, list) and isinstance(theirs, list):
        if words[0] in ("KEYS", "SCAN"):
            ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
        return len(ours) == len(theirs) and all(same(words, *parts) for parts in zip(ours, theirs))
    if isinstance(ours, int) and isinstance(theirs, int) and words[0] in ("TTL", "EXPIRETIME", "EXEC") and ours > 900:
        return abs(ours - theirs) <= TIMEOUT_S
    return repr(ours) == repr(theirs)


if __name__ == "__main__":
    unittest.main()
