"""Images of files that look alike (inodes, sizes, times) take each other's place under one name and one device number,
while a pool and its programs go on. What is read are the bytes of the image that is mounted."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import workbench
from waiting import TIMEOUT_S, wait_for

NODES = 2
FILE = "file"
BYTES = 100_000


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL, capture_output=True,
                   timeout=TIMEOUT_S)


def make_squashfs(source):
    image = source.with_suffix(".squashfs")
    run("mksquashfs", source, image, "-all-time", "1000000000", "-mkfs-time", "1000000000", "-noappend")
    return image


class CountingFs:
    """The file system of the tests, which shows a directory as an image."""

    processes = {}  # by mount point

    @staticmethod
    def make(source):
        return source

    @staticmethod
    def mount(image, place):
        CountingFs.processes[place] = subprocess.Popen([workbench.BIN / "counting_fs", "--image", image, place])
        wait_for(place.is_mount, "the image to be mounted")

    @staticmethod
    def unmount(place):
        run("fusermount3", "-u", place)
        CountingFs.processes.pop(place).wait(TIMEOUT_S)


class Squashfuse:
    make = staticmethod(make_squashfs)

    @staticmethod
    def mount(image, place):
        run("squashfuse", image, place)
        wait_for(place.is_mount, "the image to be mounted")

    @staticmethod
    def unmount(place):
        run("fusermount3", "-u", place)


class Squashfs:
    """The kernel's, on a loop device."""

    make = staticmethod(make_squashfs)

    @staticmethod
    def mount(image, place):
        run("mount", "-t", "squashfs", "-o", "loop,ro", image, place)

    @staticmethod
    def unmount(place):
        run("umount", place)


class Remounts(unittest.TestCase):
    """Of a kind of image, which subclasses name."""

    kind = CountingFs
    needs = ()

    def setUp(self):
        for program in self.needs:
            if not shutil.which(program):
                self.skipTest(f"{program} is not installed")
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="farside-exec-"))).resolve()
        self.content = {}
        self.images = {}
        for name in ("one", "two"):
            source = self.directory / f"image-{name}"
            source.mkdir()
            self.content[name] = (name * BYTES)[:BYTES]
            (source / FILE).write_text(self.content[name])
            self.images[name] = self.kind.make(source)
        self.places = [self.directory / "place", self.directory / "another place"]
        for place in self.places:
            place.mkdir()
        self.stack = self.enterContext(contextlib.ExitStack())
        self.pool = self.enterContext(workbench.pool(self.directory / "pool", nodes=NODES))
        self.readers = [self.start_reader(node) for node in range(NODES)]

    def exec_on(self, node):
        return [workbench.BIN / "farside", "exec", "--node", str(node), "--under", str(self.directory), "--"]

    def start_reader(self, node):
        """A program that reads through the node, for as long as the test lasts."""

        def start(command, **options):
            return subprocess.Popen([*self.exec_on(node), *command], env=os.environ | self.pool, **options)

        return self.enterContext(workbench.Reader(start, self.directory))

    def mount(self, name, place):
        try:
            self.kind.mount(self.images[name], place)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"cannot mount: {error.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(place)], capture_output=True)

    def shows(self, place, name):
        """Whatever reads the file, and however long it has been running, gets this image's bytes."""
        path = place / FILE
        expected = workbench.digest(self.content[name])
        for _ in range(2):  # the second time out of memory
            for node in range(NODES):
                with self.subTest(place=place.name, node=node):
                    self.readers[node].ask(path.relative_to(self.directory))
                    self.assertEqual(self.readers[node].answer(), expected)
                    done = subprocess.run([*self.exec_on(node), "cat", path], env=os.environ | self.pool, text=True,
                                          capture_output=True, timeout=TIMEOUT_S, check=True)
                    self.assertEqual(done.stdout[:9], self.content[name][:9])
                    self.assertTrue(done.stdout == self.content[name])

    def test_another_image_takes_the_place_of_one(self):
        (place, _) = self.places
        for name in ("one", "two", "one"):
            self.mount(name, place)
            self.shows(place, name)
            self.assertGreater(workbench.hit_bytes(self.pool), 0)
            self.kind.unmount(place)  # which no node and no program stands in the way of

    def test_two_images_change_places(self):
        names = ["one", "two"]
        for _ in range(3):
            for name, place in zip(names, self.places):
                self.mount(name, place)
            for name, place in zip(names, self.places):
                self.shows(place, name)
            for place in self.places:
                self.kind.unmount(place)
            names.reverse()


class SquashfuseRemounts(Remounts):
    kind = Squashfuse
    needs = ("mksquashfs", "squashfuse")


class SquashfsRemounts(Remounts):
    kind = Squashfs
    needs = ("mksquashfs",)

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount by the kernel")
        super().setUp()


if __name__ == "__main__":
    unittest.main()
