"""The block device as nbdkit serves it, with the clients that people have: libnbd, nbdinfo, nbdcopy, qemu-img, fio."""
import errno
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import unittest
import unittest.mock

import nbd

import waiting
import pool

MIB = 1 << 20
SOURCES = pathlib.Path(__file__).parents[2] / "src"


class Device:
    """nbdkit with farside's plugin, on a socket of its own; it ends with the test."""

    def __init__(self, of, size, *parameters, errors=None):
        self.directory = tempfile.TemporaryDirectory()
        self.socket = self.directory.name + "/nbd"
        self.uri = "nbd+unix:///?socket=" + self.socket
        self.process = subprocess.Popen(
            ["nbdkit", "--foreground", "--exit-with-parent", "--unix", self.socket, os.environ["FARSIDE_NBD_PLUGIN"],
             f"size={size}", *parameters], env=of.environment, stderr=errors)
        waiting.wait_for(lambda: self.process.poll() is not None or self.listens(), "nbdkit does not serve")

    def listens(self):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(self.socket) == 0

    def connect(self):
        handle = nbd.NBD()
        handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
        handle.connect_uri(self.uri)
        return handle

    def stop(self):
        self.process.terminate()
        code = self.process.wait(waiting.TIMEOUT_S)
        self.directory.cleanup()
        return code


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, timeout=waiting.TIMEOUT_S, **options).stdout


class ADevice(unittest.TestCase):
    SIZE = 64 * MIB + 512  # not a multiple of anything

    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--far", "64M")
        self.addCleanup(self.pool.stop)
        self.device = Device(self.pool, self.SIZE)
        self.addCleanup(self.device.stop)

    def test_says_what_it_can(self):
        export = json.loads(run("nbdinfo", "--json", "--no-content", self.device.uri))["exports"][0]
        self.assertEqual(export["export-size"], self.SIZE)
        for ability in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"]:
            self.assertTrue(export[ability], ability)
        self.assertFalse(export["is_read_only"])

    def test_does_what_a_file_of_its_size_does(self):
        """Like fsx: random requests on two connections, each remembered in a model."""
        dice = random.Random(1)
        model = bytearray(self.SIZE)
        connections = [self.device.connect() for _ in range(2)]
        for step in range(3000):
            connection = dice.choice(connections)
            offset = dice.randrange(self.SIZE)
            length = min(dice.choice([1, 512, 4096, 100_000, 3 * MIB]), self.SIZE - offset)
            request = dice.choice(["read", "read", "write", "write", "zero", "trim", "flush", "extents"])
            with self.subTest(step=step, request=request, offset=offset, length=length):
                if request == "read":
                    self.assertEqual(connection.pread(length, offset), model[offset:offset + length])
                elif request == "write":
                    written = dice.randbytes(length)
                    connection.pwrite(written, offset, dice.choice([0, nbd.CMD_FLAG_FUA]))
                    model[offset:offset + length] = written
                elif request == "zero":
                    connection.zero(length, offset, dice.choice([0, nbd.CMD_FLAG_NO_HOLE]))
                    model[offset:offset + length] = bytes(length)
                elif request == "trim":
                    connection.trim(length, offset)
                    model[offset:offset + length] = bytes(length)
                elif request == "flush":
                    connection.flush()
                else:
                    self.check_extents(connection, model, length, offset)

    def check_extents(self, connection, model, length, offset):
        """What is said to be zero is."""
        found = []
        connection.block_status(length, offset, lambda context, at, entries, error: found.extend(entries))
        for extent, kind in zip(found[::2], found[1::2]):
            end = min(offset + extent, self.SIZE)
            if kind & nbd.STATE_ZERO:
                self.assertFalse(any(model[offset:end]))
            offset = end

    def test_gives_back_what_was_trimmed(self):
        connection = self.device.connect()
        for _ in range(3):  # more, together, than the pool has
            for offset in range(0, 60 * MIB, MIB):
                connection.pwrite(b"x" * MIB, offset)
            connection.trim(64 * MIB, 0)
        self.assertEqual(connection.pread(MIB, 0), bytes(MIB))

    def test_carries_an_image_there_and_back(self):
        with tempfile.TemporaryDirectory() as directory:
            image, back = pathlib.Path(directory, "image"), pathlib.Path(directory, "back")
            with image.open("wb") as file:
                file.truncate(self.SIZE)
            run("mke2fs", "-q", "-t", "ext4", "-d", SOURCES, image, "60M")
            run("nbdcopy", "--connections=4", image, self.device.uri)
            run("nbdcopy", "--connections=4", self.device.uri, back)
            run("cmp", image, back)
            run("qemu-img", "compare", "-f", "raw", "-F", "raw", str(image), self.device.uri)

    def test_passes_what_fio_verifies(self):
        run("fio", "--name=verify", "--ioengine=nbd", "--uri=" + self.device.uri, "--rw=randrw", "--bs=4k,64k", "--size=32M",
            "--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--randseed=1", cwd=self.device.directory.name)


class Lent(unittest.TestCase):
    """What nodes lend to a device, which writes it all."""
    SIZE = 24 * MIB

    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--far", "64M")
        self.addCleanup(self.pool.stop)

    def resident(self):
        """Of the nodes' memory that others map."""
        status = [pathlib.Path(f"/proc/{node['process']}/status").read_text() for node in self.pool.status()["nodes"]]
        return sum(int(line.split()[1]) * 1024 for text in status for line in text.splitlines() if "RssShmem" in line)

    def start(self, *parameters):
        device = Device(self.pool, self.SIZE, *parameters)
        self.addCleanup(device.stop)
        connection = device.connect()
        self.model = random.Random(2).randbytes(self.SIZE)
        for offset in range(0, self.SIZE, MIB):
            connection.pwrite(self.model[offset:offset + MIB], offset)
        return device, connection

    def read(self, connection):
        return b"".join(connection.pread(MIB, offset) for offset in range(0, self.SIZE, MIB))

    def test_comes_back_whether_its_device_ends_or_is_killed(self):
        before = self.resident()
        for end in [Device.stop, lambda device: device.process.kill()]:
            device, connection = self.start()
            self.assertEqual(sum(self.pool.lent()), self.SIZE)
            self.assertGreater(self.resident(), before + self.SIZE / 2)
            connection.shutdown()  # for whose end nbdkit waits
            end(device)
            waiting.wait_for(lambda: sum(self.pool.lent()) == 0, "what was lent does not come back")
            waiting.wait_for(lambda: self.resident() < before + self.SIZE / 2, "the machine does not get it back")

    def test_is_mirrored_again_after_a_loss(self):
        _, connection = self.start("mirror=true")
        for rank in [0, 1]:  # data on the second node alone would not survive the loss of both
            self.pool.kill_node(rank)
            self.assertEqual(self.read(connection), self.model)
            waiting.wait_for(lambda: self.pool.lent() == [self.SIZE, self.SIZE], "it is not mirrored again")
        self.assertEqual(self.read(connection), self.model)

    def test_is_in_the_file_when_it_is_on_no_node(self):
        with tempfile.TemporaryDirectory() as directory:
            _, connection = self.start(f"spill={directory}/spill")
            self.assertEqual(os.listdir(directory), [], "the file has no name")
            for rank in [0, 1]:
                self.pool.kill_node(rank)
                self.assertEqual(self.read(connection), self.model)
                connection.pwrite(b"x" * MIB, rank * MIB)
                self.model = self.model[:rank * MIB] + b"x" * MIB + self.model[(rank + 1) * MIB:]
            for rank in [0, 1]:
                self.pool.kill_node(rank)
            self.assertEqual(self.read(connection), self.model)

    def test_is_never_made_up(self):
        """What lay on a lost node is an error until it is written again; what did not is there."""
        _, connection = self.start()
        self.pool.kill_node(0)
        lost = []
        for offset in range(0, self.SIZE, MIB):
            try:
                self.assertEqual(connection.pread(MIB, offset), self.model[offset:offset + MIB])
            except nbd.Error as error:
                self.assertEqual(error.errnum, errno.EIO)
                lost.append(offset)
        self.assertEqual(len(lost), self.SIZE // MIB // 2)
        for offset in lost:
            connection.pwrite(b"x" * MIB, offset)
            self.model = self.model[:offset] + b"x" * MIB + self.model[offset + MIB:]
        self.assertEqual(self.read(connection), self.model)

    def test_is_an_error_when_its_pool_has_ended(self):
        _, connection = self.start("mirror=true")
        self.pool.process.terminate()
        self.pool.process.wait(waiting.TIMEOUT_S)
        for request in [lambda: connection.pread(MIB, 0), lambda: connection.pwrite(b"x" * MIB, MIB)]:
            with self.assertRaises(nbd.Error) as raised:
                request()
            self.assertEqual(raised.exception.errnum, errno.EIO)


class OverTcp(unittest.TestCase):
    """Over TCP a node that is stopped does not answer its clients, and carries out what they sent when it continues."""
    SIZE = 8 * MIB
    STEP = MIB // 16  # more than sockets hold can end a client of UCX 1.13 (docs/protocols/fabric_ucx.md)

    def start(self, protection):
        over_tcp = {"FARSIDE_FABRIC": "ucx", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
        with unittest.mock.patch.dict(os.environ, over_tcp):
            self.pool = pool.Pool("--cache", "16M", "--far", "64M")
        self.addCleanup(self.pool.stop)
        self.log = self.enterContext(tempfile.NamedTemporaryFile())
        self.device = Device(self.pool, self.SIZE, protection, errors=self.log)
        self.addCleanup(self.device.stop)
        self.connection = self.device.connect()
        self.addCleanup(self.connection.shutdown)  # for whose end nbdkit waits

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def wait_until_said(self, text):
        waiting.wait_for(lambda: text in self.said(), "the device does not say: " + text)

    def succeeds(self, request, *arguments):
        """A slow machine may need more than the device's time."""
        def tried():
            try:
                self.answer = request(*arguments)
            except nbd.Error:
                return False
            return True
        waiting.wait_for(tried, "the device does not answer")
        return self.answer

    def write(self, byte):
        for offset in range(0, self.SIZE, self.STEP):
            self.succeeds(self.connection.pwrite, byte * self.STEP, offset)

    def expect(self, byte):
        for offset in range(0, self.SIZE, self.STEP):
            self.assertEqual(self.succeeds(self.connection.pread, self.STEP, offset), byte * self.STEP)

    def stop_node(self, rank):
        process = self.pool.status()["nodes"][rank]["process"]
        os.kill(process, signal.SIGSTOP)
        self.addCleanup(os.kill, process, signal.SIGCONT)
        threads = pathlib.Path(f"/proc/{process}/task")
        stopped = lambda thread: thread.read_text().rsplit(")", 1)[1].split()[0] == "T"
        waiting.wait_for(lambda: all(map(stopped, threads.glob("*/stat"))), "the node does not stop")
        return process


class AMirrorOverTcp(OverTcp):
    def setUp(self):
        self.start("mirror=true")

    def test_outlives_a_node_that_hangs_and_continues(self):
        self.write(b"1")
        stopped = self.stop_node(0)
        self.expect(b"1")
        self.write(b"2")
        self.expect(b"2")
        self.assertIn("does not answer, and is treated as lost", self.said())
        os.kill(stopped, signal.SIGCONT)
        self.expect(b"2")
        waiting.wait_for(lambda: "mirrored again" in self.said(), "it is not mirrored again")
        self.pool.kill_node(1)
        self.expect(b"2")


class ASpillOverTcp(OverTcp):
    def setUp(self):
        self.start("spill=" + self.enterContext(tempfile.TemporaryDirectory()) + "/spill")

    def test_does_without_a_node_that_hangs(self):
        self.write(b"1")
        stopped = self.stop_node(0)
        self.expect(b"1")
        self.wait_until_said("node 0 does not answer: until it does, its data is in the spill file")
        self.write(b"2")
        self.expect(b"2")
        os.kill(stopped, signal.SIGCONT)
        self.wait_until_said("node 0 answers again")
        self.expect(b"2")
        self.pool.kill_node(1)
        self.expect(b"2")


class TrustOverTcp(OverTcp):
    def setUp(self):
        self.start("mirror=false")

    def test_says_which_node_hangs_and_goes_on_when_it_does(self):
        self.write(b"1")
        stopped = self.stop_node(0)
        self.wait_until_said("node 0 does not answer: what needs its data waits")
        os.kill(stopped, signal.SIGCONT)
        self.wait_until_said("node 0 answers again")
        self.expect(b"1")


class AMissingPool(unittest.TestCase):
    def test_is_told_before_any_client_is_served(self):
        with tempfile.TemporaryDirectory() as directory:
            nowhere = {**os.environ, "FARSIDE_RUNTIME_DIR": directory}
            ended = subprocess.run(["nbdkit", "--unix", directory + "/nbd", os.environ["FARSIDE_NBD_PLUGIN"], "size=1M"],
                                   env=nowhere, capture_output=True, text=True, timeout=waiting.TIMEOUT_S, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("farside up", ended.stderr)


class ADeviceThatCannotBe(unittest.TestCase):
    """Each is told before any client is served."""

    @classmethod
    def setUpClass(cls):
        cls.pool = pool.Pool("--cache", "16M", "--far", "16M")
        cls.addClassCleanup(cls.pool.stop)

    def refusal(self, *parameters):
        with tempfile.TemporaryDirectory() as directory:
            ended = subprocess.run(["nbdkit", "--unix", directory + "/nbd", os.environ["FARSIDE_NBD_PLUGIN"], *parameters],
                                   env=self.pool.environment, capture_output=True, text=True,
                                   timeout=waiting.TIMEOUT_S, check=False)
        self.assertEqual(ended.returncode, 1)
        return ended.stderr

    def test_is_larger_than_the_pool(self):
        self.assertIn("cannot take 1 GiB of far memory: the pool has 32 MiB left;", self.refusal("size=1G"))
        self.assertIn("the pool has 16 MiB left, mirrored;", self.refusal("size=32M", "mirror=true"))

    def test_has_no_size(self):
        self.assertIn("its size is not given", self.refusal())
        self.assertIn("its size is not given", self.refusal("size=0"))

    def test_is_protected_twice(self):
        self.assertIn("choose one of mirror= and spill=", self.refusal("size=1M", "mirror=true", "spill=/tmp/spill"))

    def test_spills_where_nothing_can_be_written(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"precious")
            file.flush()
            self.assertIn("it is there already", self.refusal("size=1M", "spill=" + file.name))
            self.assertEqual(pathlib.Path(file.name).read_bytes(), b"precious")
        self.assertIn("No such file or directory", self.refusal("size=1M", "spill=/nowhere/spill"))


if __name__ == "__main__":
    unittest.main()
