"""Programs whose memory is far in either way, as tests run them: below `farside far`, or with a heap of their own. Both
take the same options, and end as a shell says it."""
import os
import pathlib
import random
import signal
import subprocess

from waiting import TIMEOUT_S, wait_for

LOCAL = "12M"  # of the 48 MiB that they use


def below_farside_far(*options):
    return [os.environ["FARSIDE_COMMAND"], "far", "--local", LOCAL, *options, "--", os.environ["FARSIDE_HAMMER"]]


def with_a_heap(*options):
    return [os.environ["FARSIDE_HEAP_HAMMER"], "--local", LOCAL, *options]


WAYS = [below_farside_far, with_a_heap]


class ForEver:
    """It goes over its memory again and again, until it finds a wrong byte or is told to end. `start` starts the command
    that it is given, with options of Popen."""

    def __init__(self, start, command):
        self.process = start([*command, "for_ever"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        first = self.process.stdout.readline()
        if first != b"ready\n":
            self.kill()
            raise AssertionError(f"it begins with {first}: {self.process.communicate()}")
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said = b""

    def rounds(self):
        """That it has made so far."""
        self.said += self.process.stdout.read(65536) or b""
        return self.said.count(b"right\n")

    def goes_on(self):
        """Returns when it has looked at every byte once more. Whether it has: else it ended."""
        rounds = self.rounds()
        wait_for(lambda: self.process.poll() is not None or self.rounds() > rounds + 1, "the program stands still")
        return self.process.poll() is None

    def tell_to_end(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        self.process.kill()

    def end(self):
        """How it ended, and what it said on standard error."""
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        code = self.process.returncode
        return (code if code >= 0 else 128 - code), errors.decode()


SORT = ["env", "LC_ALL=C", "/usr/bin/sort", "-S", "48M", "--parallel=1"]


def sorts_as_ever(start, directory, in_the_middle):
    """Whether sort does, mirrored below `farside far`. `in_the_middle` is called when it has read more than half of its input."""
    lines = [f"{random.Random(i).getrandbits(64):016x}{i:3000}\n".encode() for i in range(8_000)]
    plain, far = pathlib.Path(directory, "plain"), pathlib.Path(directory, "far")
    subprocess.run([*SORT, "-o", plain], input=b"".join(lines), check=True)
    command = [os.environ["FARSIDE_COMMAND"], "far", "--local", LOCAL, "--mirror", "--", *SORT, "-o", far]
    with start(command, stdin=subprocess.PIPE) as sort:
        sort.stdin.write(b"".join(lines[:5_000]))
        in_the_middle()
        sort.stdin.write(b"".join(lines[5_000:]))
        sort.stdin.close()
        return sort.wait(4 * TIMEOUT_S) == 0 and far.read_bytes() == plain.read_bytes()
