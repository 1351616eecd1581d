"""A pool of two nodes whose decisions one server of etcd keeps, on this machine: over TLS, with a password, and with what an
operator may get wrong."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import pool
import waiting

FARSIDE = os.environ["FARSIDE_COMMAND"]
SKIPPED = 77  # what ctest takes for a skipped test


def free_port(count=1):
    """The first of so many that nothing uses, and that the kernel gives to no connection: nodes listen on the next ones."""
    while True:
        first = random.randrange(20_000, 30_000)
        try:
            with contextlib.ExitStack() as held:
                for port in range(first, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            pass


class Server:
    """Over TLS, with a certificate for 127.0.0.1 that its own authority signed."""

    def __init__(self, directory):
        self.directory = directory
        self.address = f"127.0.0.1:{free_port()}"
        self.peers = f"http://127.0.0.1:{free_port()}"
        self.make_certificates()
        self.start()

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.directory, check=True, capture_output=True)

    def make_certificates(self):
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        self.openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=the test's")
        # etcd takes no certificate with a CN on its JSON interface where it asks for passwords.
        for name, subject in (("server", "/CN=server"), ("client", "/O=farside")):
            self.openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
            (self.directory / "names").write_text("subjectAltName=IP:127.0.0.1")
            self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                         "-out", f"{name}.pem", "-days", "2", "-extfile", "names")

    def start(self):
        own = f"https://{self.address}"
        command = ["etcd", "--name", "only", "--data-dir", "data", "--listen-client-urls", own, "--advertise-client-urls", own,
                   "--listen-peer-urls", self.peers, "--initial-advertise-peer-urls", self.peers,
                   "--initial-cluster", f"only={self.peers}", "--cert-file", "server.pem", "--key-file", "server.key",
                   "--trusted-ca-file", "ca.pem", "--client-cert-auth"]
        self.log = (self.directory / "log").open("a")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=self.directory, stdout=self.log, stderr=self.log)
        waiting.wait_for(lambda: self.ask("endpoint", "health").returncode == 0, "the server of etcd")

    def stop(self):
        self.process.kill()
        self.process.wait(waiting.TIMEOUT_S)
        self.log.close()

    def ask(self, *words, user=None, **options):
        named = [] if user is None else ["--user", user]
        command = ["etcdctl", "--endpoints", f"https://{self.address}", "--cacert", "ca.pem", "--cert", "client.pem", "--key", "client.key"]
        return subprocess.run([*command, *named, *words], cwd=self.directory, env={**os.environ, "ETCDCTL_API": "3"},
                              capture_output=True, text=True, **options)

    def do(self, *words, **options):
        done = self.ask(*words, **options)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def url(self, name="tried", **options):
        files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
        named = {each: str(self.directory / file) for each, file in files.items()} | options
        return f"etcds://{self.address}/{name}?" + "&".join(f"{each}={value}" for each, value in named.items() if value)


class PoolOfEtcd(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.server = Server(self.directory)
        self.addCleanup(self.server.stop)
        secret = self.directory / "secret"
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)

    def options(self, url, **other):
        named = {"--cache": "16M", "--kv": "16M", "--nodes": "2", "--secret": self.directory / "secret", "--silence": "2s",
                 "--listen": f"127.0.0.1:{free_port(4)}", "--authority": url} | other
        return [str(word) for pair in named.items() for word in pair]

    def start_pool(self, url):
        started = pool.Pool(*self.options(url))
        self.addCleanup(started.stop)
        return started

    def status(self, url):
        done = subprocess.run([FARSIDE, "authority", "status", "--json", url], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def expect_refusal(self, words, *parts):
        done = subprocess.run([FARSIDE, *words], capture_output=True, text=True,
                              env={**os.environ, "FARSIDE_RUNTIME_DIR": str(self.directory / "run")})
        self.assertNotEqual(done.returncode, 0)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_over_tls_and_with_a_password(self):
        for words in (["user", "add", "root", "--new-user-password", "top"], ["role", "add", "root"], ["user", "grant-role", "root", "root"],
                      ["user", "add", "farside", "--new-user-password", "open sesame"], ["role", "add", "pools"],
                      ["role", "grant-permission", "pools", "readwrite", "/farside/", "--prefix"],
                      ["user", "grant-role", "farside", "pools"], ["auth", "enable"]):
            self.server.do(*words)
        password = self.directory / "password"
        password.write_text("open sesame\n")
        url = self.server.url(user="farside", **{"password-file": str(password)})
        self.expect_refusal(["authority", "status", self.server.url()], "user name is empty")
        started = self.start_pool(url)
        self.assertEqual(started.run("kv", "put", "a", "1").returncode, 0)
        self.assertEqual([node["is_present"] for node in self.status(url)["nodes"]], [True, True])
        self.server.stop()
        self.server.start()  # it knows no tokens any more
        started.kill_node(1)
        waiting.wait_for(lambda: started.status()["nodes"][1]["restarts"] == 1 and started.run("status").returncode == 0, "the node")
        waiting.wait_for(lambda: self.status(url)["nodes"][1]["incarnation"] == 1, "what was decided of it")
        password.write_text("wrong\n")
        self.expect_refusal(["authority", "status", url], "authentication failed")
        self.server.do("user", "passwd", "farside", "--interactive=false", user="root:top", input="close-sesame\n")
        self.server.stop()
        self.server.start()
        password.write_text("close-sesame\n")
        started.kill_node(1)  # its process has not known the new one
        waiting.wait_for(lambda: self.status(url)["nodes"][1]["incarnation"] == 2, "what was decided of it")

    def test_a_supervisor_that_is_started_again_goes_on(self):
        """Its nodes live, and no other process could have coordinated them."""
        started = self.start_pool(self.server.url())
        before = self.status(self.server.url())
        os.kill(started.status()["supervisor"], signal.SIGKILL)
        started.process.wait(waiting.TIMEOUT_S)
        started.process.stdout.close()
        started.up()
        after = self.status(self.server.url())
        self.assertEqual((after["epoch"], after["nodes"]), (before["epoch"], before["nodes"]))
        self.assertEqual(after["coordinator"]["term"], before["coordinator"]["term"] + 1)

    def test_what_an_operator_gets_wrong(self):
        url = self.server.url()
        self.expect_refusal(["up", *self.options(f"etcd://127.0.0.1:{free_port()}/x")], "cannot read who coordinates the pool", "connect to server")
        self.expect_refusal(["up", *self.options(self.server.url(ca=""))], "certificate")
        self.expect_refusal(["up", *self.options("etcd://host/x")], "'host' is not host:port")
        self.expect_refusal(["up", *self.options(f"etcd://{self.server.address}/a/b")], "the pool's name")
        self.expect_refusal(["up", *self.options(f"etcd://{self.server.address}")], "the pool's name")
        self.expect_refusal(["up", *self.options(url, **{"--listen": "127.0.0.1:0"})], "names no process")
        self.expect_refusal(["up", *self.options(url + "&colour=red")], "'colour=red' is no option")
        self.expect_refusal(["up", *self.options(url, **{"--listen": "0.0.0.0:7000"})], "names no process")
        self.expect_refusal(["authority", "status", self.server.url("nothing")], "it has none")
        self.expect_refusal(["authority", "status", str(self.directory / "nothing")], "there is no such file")
        self.start_pool(url)
        self.expect_refusal(["authority", "remove", url], "it is running")
        self.expect_refusal(["up", "-n", "2", *self.options(url, **{"--cache": "32M"})], "it is that of a pool with other options")

    def test_a_pool_with_other_options_takes_the_name_of_one_that_was_killed(self):
        """Not before that one was ended, or removed."""
        url = self.server.url()
        killed = self.start_pool(url)
        nodes = [node["process"] for node in killed.status()["nodes"]]
        for process in [killed.status()["supervisor"], *nodes]:
            os.kill(process, signal.SIGKILL)
        killed.process.wait(waiting.TIMEOUT_S)
        killed.process.stdout.close()
        killed.arguments = self.options(url, **{"--cache": "32M"})
        self.expect_refusal(["up", "-n", "2", *killed.arguments], "it is that of a pool with other options")
        self.expect_refusal(["authority", "remove", url], "has not ended in order", "--killed")
        self.assertEqual(killed.run("authority", "remove", "--killed", url).returncode, 0)
        self.expect_refusal(["authority", "status", url], "it has none")
        killed.up()


if __name__ == "__main__":
    absent = [program for program in ("etcd", "etcdctl", "openssl") if shutil.which(program) is None]
    if absent:
        print(f"skipped: not installed: {' '.join(absent)}")
        raise SystemExit(SKIPPED)
    unittest.main()
