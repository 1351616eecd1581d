"""Unmodified programs that may keep a quarter of their memory here do what they do with all of it.

Each runs plainly first, which tells what it does and how much memory it takes. Then it runs under `farside far`, in a
memory cgroup of its budget and 64 MiB, without swap, with the pool and `farside far` outside."""
import hashlib
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import memory_cgroup
import waiting
import pool

MIB = 1 << 20
SLACK_BYTES = 64 * MIB
HERE = pathlib.Path(__file__).parent
ENVIRONMENT = {"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Plainly:
    """Starts programs in `directory`, and knows the most memory that one of them had. This process must stay smaller: the
    kernel counts what a child has between fork and exec."""

    def __init__(self, directory):
        self.directory = directory
        self.environment = os.environ | ENVIRONMENT
        self.peak_bytes = 0

    def command(self, command):
        return command

    def start(self, command, **options):
        return subprocess.Popen(self.command([str(word) for word in command]), cwd=self.directory, env=self.environment,
                                stdin=subprocess.DEVNULL, text=True, **options)

    def finish(self, process):
        """Its exit code. Unlike `wait`, it sees how much memory it took."""
        time_is_up = threading.Timer(4 * waiting.TIMEOUT_S, process.kill)
        time_is_up.start()
        _, status, usage = os.wait4(process.pid, 0)
        time_is_up.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss * 1024)
        return process.returncode

    def run(self, command):
        """What it prints."""
        with tempfile.TemporaryFile("w+") as output:
            code = self.finish(self.start(command, stdout=output))
            output.seek(0)
            if code != 0:
                raise AssertionError(f"{command} ended with {code}: {output.read()}")
            return output.read()


class UnderFar(Plainly):
    """The same under `farside far`."""

    def __init__(self, directory, of, local_bytes, group):
        super().__init__(directory)
        self.environment = of.environment | ENVIRONMENT
        self.far = [os.environ["FARSIDE_COMMAND"], "far", "--local", str(local_bytes), "--stats", "--"]
        self.group = group

    def command(self, command):
        return self.far + self.group.inside(command)


def sort(on):
    dice = random.Random(1)
    with open(on.directory / "lines", "w") as lines:
        lines.writelines(f"{dice.getrandbits(64):016x}{i:1300}\n" for i in range(90_000))
    on.run(["/usr/bin/sort", "-S", "400M", "--parallel=2", "lines", "-o", "sorted"])
    return digest(on.directory / "sorted")


def numpy(on):
    return on.run(["/usr/bin/python3", HERE / "arrays.py"])


def sqlite(on):
    database = on.directory / "database"
    printed = on.run(["/usr/bin/sqlite3", "-init", HERE / "table.sql", "-batch", database, "PRAGMA integrity_check"])
    return printed, digest(database)


def gcc(on):
    functions = []
    for i in range(1200):
        body = "".join(f"    t[{k}] = (t[{k}] * {i * 7 + k + 3}u) ^ (t[{(k + 1) % 8}] >> {k + 1});\n"
                       f"    if (t[{k}] & {1 << k}u) t[{(k + 3) % 8}] += b - {k}u;\n" for k in range(6))
        functions.append(f"unsigned f{i}(unsigned a, unsigned b) {{\n  unsigned t[8] = {{a, b, {i}u}};\n"
                         f"  for (unsigned j = 0; j < (a & 15u); j++) {{\n{body}  }}\n  return t[0] ^ t[3];\n}}\n")
    (on.directory / "large.c").write_text("".join(functions))
    on.run(["/usr/bin/gcc", "-O0", "-S", "large.c"])
    return digest(on.directory / "large.s")


def fortran(on):
    subprocess.run(["/usr/bin/gfortran", "-O2", HERE / "relax.f90", "-o", on.directory / "relax"], check=True)
    return on.run([on.directory / "relax"])


def quantum_chemistry(on):
    shutil.copy(HERE / "difluorobenzene.in", on.directory)  # it writes beside its input
    return re.findall(r"^.*energy.*=.*|^.*energy \[au\].*", on.run(["/usr/bin/mpqc", "difluorobenzene.in"]), re.M)


class Redis:
    """A server that `on` started, on a socket of its own."""

    def __init__(self, on, name, *arguments):
        self.on = on
        self.socket = f"{on.directory}/{name}"
        self.process = on.start(["/usr/bin/redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", on.directory,
                                 "--enable-debug-command", "yes", "--save", "", *arguments], stdout=subprocess.DEVNULL)
        self.wait_for(lambda: self.ask("PING") == "PONG")

    def wait_for(self, condition):
        waiting.wait_for(lambda: condition() or not self.runs(), "redis does not answer")

    def runs(self):
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def ask(self, *request):
        asked = subprocess.run(["/usr/bin/redis-cli", "-s", self.socket, *request], capture_output=True, text=True, check=False)
        return asked.stdout.strip()

    def stop(self):
        self.ask("SHUTDOWN", "NOSAVE")
        return self.on.finish(self.process)


def redis(on):
    """What was saved in the background is what was there when saving began, while everything was changed."""
    server = Redis(on, "server")
    answers = [server.ask("DEBUG", "POPULATE", "120000", "key", "800"), server.ask("DEBUG", "DIGEST"), server.ask("BGSAVE"),
               server.ask("EVAL", "for i = 0, 119999, 9 do redis.call('APPEND', 'key:' .. i, '!') end", "0")]
    server.wait_for(lambda: "rdb_bgsave_in_progress:0" in server.ask("INFO", "persistence"))
    answers += [server.ask("DEBUG", "DIGEST"), server.stop()]
    saved = Redis(Plainly(on.directory), "loaded")
    answers += [saved.ask("DEBUG", "DIGEST"), saved.stop()]
    if answers[-2] != answers[1]:
        raise AssertionError(f"not what was there when saving began: {answers}")
    return answers


class Programs(pool.OnASharedPool):
    FAR = "512M"

    def setUp(self):
        super().setUp()
        for name in ["plainly", "far"]:
            (self.directory / name).mkdir()

    def check(self, job):
        began = time.monotonic()
        plainly = Plainly(self.directory / "plainly")
        expected = job(plainly)
        local_bytes = plainly.peak_bytes // 4
        self.assertGreater(plainly.peak_bytes, local_bytes + SLACK_BYTES, "the job is too small")
        halfway = time.monotonic()
        with memory_cgroup.MemoryCgroup(job.__name__, local_bytes + SLACK_BYTES) as group:
            self.assertEqual(job(UnderFar(self.directory / "far", self.pool, local_bytes, group)), expected)
            self.assertEqual(group.killed(), 0)
        print(f"{job.__name__}: {plainly.peak_bytes / MIB:.0f} MiB in {halfway - began:.1f} s, with {local_bytes / MIB:.0f} MiB"
              f" here in {time.monotonic() - halfway:.1f} s", flush=True)

    def test_sort(self):
        self.check(sort)

    def test_numpy(self):
        self.check(numpy)

    def test_sqlite(self):
        self.check(sqlite)

    def test_gcc(self):
        self.check(gcc)

    def test_fortran(self):
        self.check(fortran)

    def test_quantum_chemistry(self):
        self.check(quantum_chemistry)

    def test_redis(self):
        self.check(redis)

    def test_a_program_alone_does_not_fit(self):
        """The cgroup holds: without farside the program is killed."""
        plainly = Plainly(self.directory / "plainly")
        fortran(plainly)
        with memory_cgroup.MemoryCgroup("alone", plainly.peak_bytes // 4 + SLACK_BYTES) as group:
            alone = plainly.start(group.inside([plainly.directory / "relax"]), stdout=subprocess.DEVNULL)
            self.assertEqual(plainly.finish(alone), -9)
            self.assertGreater(group.killed(), 0)


if __name__ == "__main__":
    unittest.main()
