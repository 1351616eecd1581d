"""When there is no node, or it dies, or the process may not be served, programs read on from the kernel."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import workbench
from waiting import TIMEOUT_S, wait_for

READS = pathlib.Path(__file__).with_name("python_reads.py")


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(workbench.bench())
        cls.file = cls.directory / "files" / "binary"
        cls.digest = hashlib.sha256(cls.file.read_bytes()).hexdigest()

    def setUp(self):
        self.socket = self.directory / self.id()
        self.environment = workbench.preloaded(self.socket, self.file.parent)

    def digest_of(self, **options):
        return subprocess.run(
            ["sha256sum", self.file],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_S,
            **options,
        )

    def start(self, stack, *arguments):
        """A python program that is talked to, and killed at the latest when `stack` unwinds."""
        program = stack.enter_context(
            subprocess.Popen(
                [sys.executable, *arguments],
                env=os.environ | self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(program.kill)
        return program

    def reads_on_after(self, sent):
        """Sends the signal to the node while a program has read half of its file from it."""
        with contextlib.ExitStack() as stack:
            node = stack.enter_context(workbench.stand_in_node(self.socket))
            program = self.start(stack, READS, "halves", self.file)
            self.assertEqual(program.stdout.readline(), "half\n")
            node.send_signal(sent)
            if sent == signal.SIGKILL:
                node.wait()
            output, errors = program.communicate("go on\n", timeout=TIMEOUT_S)
        self.assertEqual((output, errors), (f"{self.digest}\n", ""))

    def test_reads_go_on_when_the_node_is_killed(self):
        self.reads_on_after(signal.SIGKILL)

    def test_reads_go_on_when_the_node_is_stopped(self):
        self.reads_on_after(signal.SIGSTOP)

    def test_a_node_that_was_started_again_is_found(self):
        with contextlib.ExitStack() as stack:
            node = stack.enter_context(workbench.stand_in_node(self.socket))
            program = self.start(stack, workbench.ON_DEMAND)

            def read(name):
                file = self.file.with_name(name)
                program.stdin.write(f"{file}\n")
                program.stdin.flush()
                self.assertEqual(program.stdout.readline(), f"{hashlib.sha256(file.read_bytes()).hexdigest()}\n")

            read("binary")
            node.kill()
            node.wait()
            read("text")  # the program finds out, and reads on
            self.socket.unlink()
            stack.enter_context(workbench.stand_in_node(self.socket))

            def is_served():
                read("text")
                return workbench.blocks_loaded(self.socket) > 0

            wait_for(is_served, "the program to find the new node")
            before = workbench.blocks_loaded(self.socket)
            read("binary")  # what the old node had is not taken for what the new one has
            self.assertGreater(workbench.blocks_loaded(self.socket), before)
            _, errors = program.communicate(timeout=TIMEOUT_S)
        self.assertEqual(errors, "")

    def test_without_a_node_there_is_one_warning(self):
        done = self.digest_of()
        self.assertTrue(done.stdout.startswith(self.digest))
        self.assertRegex(done.stderr, r"\Afarside: cannot reach the node at .*: No such file or directory; .*\n\Z")

    def test_the_warning_is_not_written_into_a_file_of_the_program(self):
        script = "import os, sys; os.close(2); os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT); open(sys.argv[1], 'rb').read()"
        log = self.directory / "log"
        subprocess.run([sys.executable, "-c", script, self.file, log], env=os.environ | self.environment, check=True)
        self.assertEqual(log.read_bytes(), b"")

    def test_programs_that_touch_nothing_there_do_not_ask_the_node(self):
        environment = workbench.preloaded(self.socket, self.directory / "scratch")
        done = subprocess.run(
            ["sha256sum", self.file], env=os.environ | environment, capture_output=True, text=True, check=True
        )
        self.assertTrue(done.stdout.startswith(self.digest))
        self.assertEqual(done.stderr, "")  # there is no node: asking would have warned

    @unittest.skipIf(os.geteuid() != 0, "only root can make another user's program")
    def test_setuid_programs_are_left_alone(self):
        """The dynamic linker drops most of what is preloaded into them; here the library is linked to the program."""
        if not all(folder.stat().st_mode & 0o001 for folder in workbench.BIN.parents):
            self.skipTest("another user cannot get at the library in this build")
        program = self.directory / "setuid_cat"
        shutil.copy(workbench.BIN / "linked_cat", program)
        self.directory.chmod(0o755)
        os.chown(program, 65534, 65534)
        environment = {name: value for name, value in self.environment.items() if name != "LD_PRELOAD"}
        for mode, is_served in ((0o755, True), (0o4755, False)):
            with self.subTest(oct(mode)), workbench.stand_in_node(self.socket):
                self.socket.chmod(0o777)
                program.chmod(mode)
                content = subprocess.run([program, self.file], env=environment, capture_output=True, check=True).stdout
                self.assertEqual(hashlib.sha256(content).hexdigest(), self.digest)
                self.assertEqual(workbench.blocks_loaded(self.socket) > 0, is_served)
            self.socket.unlink()

    def test_the_library_needs_nothing_but_libc(self):
        dynamic = subprocess.run(["readelf", "-dW", workbench.LIBRARY], capture_output=True, text=True, check=True)
        needed = [line.split("[")[1] for line in dynamic.stdout.splitlines() if "(NEEDED)" in line]
        self.assertEqual(needed, ["libc.so.6]"])


if __name__ == "__main__":
    unittest.main()
