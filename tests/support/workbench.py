"""What the tests of preloaded programs stand on: files, a file system that counts, a node, and runs of a command."""
import contextlib
import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

from waiting import TIMEOUT_S, wait_for

BIN = pathlib.Path(os.environ["FARSIDE_BIN"])
LIBRARY = pathlib.Path(os.environ["FARSIDE_PRELOAD"])
ON_DEMAND = str(pathlib.Path(__file__).with_name("read_on_demand.py"))
SETTLED_S = 2.2  # a file that changed within 2 s is read around the cache


@dataclasses.dataclass
class Outcome:
    """Everything that a program can be judged by."""

    code: int
    output: bytes
    errors: bytes
    made: dict  # what it left in its working directory, by name


def run(command, scratch, environment=None):
    """Runs `command` in `scratch`, an empty directory when it starts and when it returns."""
    done = subprocess.run(
        command,
        cwd=scratch,
        env=os.environ | {"LC_ALL": "C", "TZ": "UTC"} | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    made = {str(path.relative_to(scratch)): path.read_bytes() for path in scratch.rglob("*") if path.is_file()}
    for path in scratch.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Outcome(done.returncode, done.stdout, done.stderr, made)


def preloaded(node, *directories):
    """The environment in which `farside exec` starts a program."""
    under = "".join(f"{os.path.realpath(directory)}/" for directory in directories)
    return {"LD_PRELOAD": str(LIBRARY), "FARSIDE_NODE_SOCKET": str(node), "FARSIDE_UNDER": under}


@contextlib.contextmanager
def running(command):
    process = subprocess.Popen([str(word) for word in command])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Reader:
    """A program that reads files below a directory when it is asked to; it ends with the `with` block. `start` starts
    the command that it is given, with options of Popen."""

    def __init__(self, start, directory):
        self.directory = directory
        self.program = start([sys.executable, ON_DEMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.kill()
        self.program.communicate()

    def ask(self, name):
        self.program.stdin.write(f"{self.directory / name}\n")
        self.program.stdin.flush()

    def answer(self):
        """The digest of what was asked for; empty when the program ended, or took too long and was ended."""
        time_is_up = threading.Timer(TIMEOUT_S, self.program.kill)
        time_is_up.start()
        try:
            return self.program.stdout.readline().rstrip()
        finally:
            time_is_up.cancel()


@contextlib.contextmanager
def pool(directory, nodes):
    """The environment in which `farside` finds a pool of its own."""
    environment = os.environ | {"FARSIDE_RUNTIME_DIR": str(directory)}
    directory.mkdir(mode=0o700)
    up = [BIN / "farside", "up", "-n", str(nodes), "--cache", "64M", "--block", "64K"]
    subprocess.run(up, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    try:
        yield {"FARSIDE_RUNTIME_DIR": str(directory)}
    finally:
        subprocess.run([BIN / "farside", "down"], env=environment, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def stand_in_node(path, block_bytes=64 * 1024, slots=4096):
    with running([BIN / "stand_in_node", path, block_bytes, slots]) as process:
        wait_for(path.exists, "the socket")
        yield process


def blocks_loaded(path):
    """What the node answers to a `status` request (node_socket.h)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as node:
        node.connect(str(path))
        node.send(struct.pack("4I48x", 0x66617264, 2, 4, 0))
        return struct.unpack_from("2I10Q", node.recv(1024))[11]


@contextlib.contextmanager
def counting_mount(source, mountpoint, *options):
    mountpoint.mkdir()
    with running([BIN / "counting_fs", *options, source, mountpoint]):
        try:
            wait_for(mountpoint.is_mount, "the file system to be mounted")
            yield mountpoint
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(mountpoint)], check=True)


def digest(content):
    return hashlib.sha256(content.encode()).hexdigest()


def hit_bytes(environment):
    """How many bytes the programs of a pool have copied out of its nodes' memory."""
    status = [BIN / "farside", "status", "--json"]
    done = subprocess.run(status, env=os.environ | environment, capture_output=True, check=True, timeout=TIMEOUT_S)
    return sum(node["hit_bytes"] for node in json.loads(done.stdout)["nodes"])


def bytes_read(mountpoint):
    return int(os.getxattr(mountpoint, "user.bytes_read"))


def reads_hung(mountpoint):
    return int(os.getxattr(mountpoint, "user.reads_hung"))


def release_slow_read(mountpoint):
    os.setxattr(mountpoint, "user.released", b"")


def hang_at_root(mountpoint):
    os.setxattr(mountpoint, "user.hang_at_root", b"")


def size(path):
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def make_files(directory):
    """One of each kind of file that the programs read, always with the same contents."""
    dice = random.Random(2)
    lines = [f"{dice.randrange(10**9)} {'needle' if dice.random() < 0.01 else 'hay'} {i}\n" for i in range(60_000)]
    (directory / "text").write_text("".join(lines))
    binary = dice.randbytes(3_000_001)
    (directory / "binary").write_bytes(binary)
    (directory / "almost").write_bytes(binary[:2_000_000] + b"!" + binary[2_000_001:])
    (directory / "packed.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    (directory / "hung").write_bytes(bytes(1 << 20))
    (directory / "slow").write_bytes(dice.randbytes(50_000))
    tree = directory / "tree"
    for i in range(60):
        (tree / str(i % 7)).mkdir(parents=True, exist_ok=True)
        (tree / str(i % 7) / f"file {i}").write_text("".join(lines[i * 50 : i * 50 + i]))
    (tree / "two\nlines: and a colon").write_text("needle\n")
    with contextlib.closing(sqlite3.connect(directory / "database")) as database, database:
        database.execute("create table people (id integer primary key, name text)")
        database.executemany("insert into people values (?, ?)", ((i, f"name {i}") for i in range(20_000)))
    make_repository(directory / "repository")


def make_repository(directory):
    git = ["git", "-C", str(directory), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(directory)], check=True)
    for i in range(5):
        (directory / "file").write_text(f"version {i}\n" * 1000)
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"change {i}"], check=True)


@contextlib.contextmanager
def bench():
    """A directory of its own, with `files` in it that may be cached, and an empty `scratch`."""
    with tempfile.TemporaryDirectory(prefix="farside-exec-") as name:
        directory = pathlib.Path(name).resolve()
        (directory / "scratch").mkdir()
        (directory / "files").mkdir()
        make_files(directory / "files")
        time.sleep(SETTLED_S)
        yield directory
