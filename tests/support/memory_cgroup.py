"""A memory cgroup of the test's own, of version 1 or 2, without swap."""
import os
import pathlib
import time
import unittest

from waiting import TIMEOUT_S


class Version1:
    LIMIT, SWAP, PEAK, EVENTS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes",
                                 "memory.oom_control")

    @staticmethod
    def swap_limit(limit_bytes):
        return limit_bytes  # of memory and swap together


class Version2:
    LIMIT, SWAP, PEAK, EVENTS = "memory.max", "memory.swap.max", "memory.peak", "memory.events"

    @staticmethod
    def swap_limit(_):
        return 0


def mounted():
    """Where cgroups with the memory controller are mounted, and their version."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(maxsplit=2)
        root = pathlib.Path(before.split()[4])
        if kind == "cgroup" and "memory" in options.split(","):
            return root, Version1
        if kind == "cgroup2" and "memory" in (root / "cgroup.controllers").read_text().split():
            return root, Version2
    raise unittest.SkipTest("no memory cgroups here")


class MemoryCgroup:
    """`limit_bytes` for what joins it by writing its number to `procs`. Making one takes root: the test is skipped without."""

    def __init__(self, name, limit_bytes):
        root, self.version = mounted()
        self.path = root / f"farside-{os.getpid()}-{name}"
        try:
            if self.version is Version2:
                (root / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"to make a memory cgroup takes root, or rights on {root}: {error}") from error
        self.procs = self.path / "cgroup.procs"
        (self.path / self.version.LIMIT).write_text(str(limit_bytes))
        if (self.path / self.version.SWAP).exists():
            (self.path / self.version.SWAP).write_text(str(self.version.swap_limit(limit_bytes)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.procs.read_text().split():
            os.kill(int(process), 9)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self.path.rmdir()
            except OSError:  # who was killed is not gone yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def inside(self, command):
        """The command that runs `command` in here."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.procs), *command]

    def killed(self):
        """How many processes were killed since memory was out."""
        events = dict(line.split() for line in (self.path / self.version.EVENTS).read_text().splitlines())
        return int(events["oom_kill"])

    def peak_bytes(self):
        return int((self.path / self.version.PEAK).read_text())
