"""A real pool loses its nodes, or they stop, while many programs are in the middle of their reads: the programs do not
notice, nothing waits for ever, and `farside down` leaves nothing. Nor does a file system that hangs stop others."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import workbench
from waiting import TIMEOUT_S, wait_for

FARSIDE = str(workbench.BIN / "farside")
READS = str(pathlib.Path(__file__).with_name("python_reads.py"))
PROGRAMS = 6  # on each node

# What else runs meanwhile, from beginning to end; $d is the directory with the files.
WHOLE = ["sha256sum $d/text $d/almost", "cat $d/tree/*/* | wc", "cp -r $d/tree . && grep -rc needle tree | sort"]


def shared_memory_files():
    """The files that farside, or UCX under it, can have left. Other programs' files come and go during a test, and so
    do the directories of other tests of farside."""
    there = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []  # not in a bare chroot
    own = [name for name in there if name.startswith(("farside", "ucx_shm"))]
    return sorted(name for name in own if not name.startswith(("farside-test-", "farside-fuzz-")))


def processes_of(directory):
    """Those that have the directory in their environment or among their words."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(directory).encode() in (process / "environ").read_bytes() + (process / "cmdline").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


class PoolFailures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(workbench.bench())
        cls.files = cls.directory / "files"
        cls.file = cls.files / "binary"
        cls.digest = hashlib.sha256(cls.file.read_bytes()).hexdigest()

    def exec_on(self, node, command, under=None, **options):
        return subprocess.Popen(
            [FARSIDE, "exec", "--node", node, "--under", str(under or self.files), "--", *command],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def status(self):
        shown = subprocess.run([FARSIDE, "status", "--json"], env=self.environment, stdout=subprocess.PIPE, check=False)
        return json.loads(shown.stdout)  # it ends with 1 while a node is down

    def start_programs(self, stack):
        """On both nodes, programs that have read half of a file, and others that run through, with what they print."""
        halves = []
        for i in range(2 * PROGRAMS):
            program = self.exec_on(str(i % 2), [sys.executable, READS, "halves", str(self.file)])
            stack.callback(program.kill)
            halves.append(program)
        for program in halves:
            self.assertEqual(program.stdout.readline(), "half\n")
        whole = []
        for i, command in enumerate(WHOLE * 2):
            scratch = self.directory / "scratch" / f"{self.id()}-{i}"
            scratch.mkdir()
            words = ["sh", "-c", f"d={self.files}; {command}"]
            expected = subprocess.run(words, cwd=scratch, capture_output=True, text=True, check=True).stdout
            program = self.exec_on(str(i % 2), words, cwd=scratch)
            stack.callback(program.kill)
            whole.append((program, expected))
        return halves, whole

    def programs_outlive(self, victims, sent):
        """`victims` picks processes out of what `farside status` says; they are sent the signal."""
        runtime = self.directory / f"run-{self.id().rsplit('.')[-1]}"
        before = shared_memory_files()
        with contextlib.ExitStack() as stack:
            self.environment = os.environ | stack.enter_context(workbench.pool(runtime, nodes=2))
            halves, whole = self.start_programs(stack)
            for process in victims(self.status()):
                os.kill(process, sent)
            for program in halves:
                program.stdin.write("go on\n")
                program.stdin.flush()
            for program in halves:
                output, errors = program.communicate(timeout=TIMEOUT_S)
                self.assertEqual((program.returncode, output, errors), (0, self.digest + "\n", ""))
            for program, expected in whole:
                output, _ = program.communicate(timeout=TIMEOUT_S)
                self.assertEqual((program.returncode, output), (0, expected))
        self.assertLessEqual(set(os.listdir(runtime)), {"pool.log"})  # no socket either
        self.assertEqual(processes_of(runtime), [])
        self.assertEqual(shared_memory_files(), before)

    def test_own_node_is_killed(self):
        self.programs_outlive(lambda status: [status["nodes"][0]["process"]], signal.SIGKILL)

    def test_own_node_is_stopped(self):
        self.programs_outlive(lambda status: [status["nodes"][0]["process"]], signal.SIGSTOP)

    def test_all_nodes_are_killed(self):
        self.programs_outlive(lambda status: [node["process"] for node in status["nodes"]], signal.SIGKILL)

    def test_supervisor_is_killed(self):
        self.programs_outlive(lambda status: [status["supervisor"]], signal.SIGKILL)

    def test_supervisor_is_stopped(self):
        self.programs_outlive(lambda status: [status["supervisor"]], signal.SIGSTOP)

    def test_a_file_system_hangs(self):
        """Its loads keep no program from the node's memory: from reaching the node, from learning what a file is, and
        so from hits. A node that was blocked would have sent the program to the kernel after its time limit."""
        loads = 12  # more than a node does at once
        mount = self.directory / "mount"
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(workbench.pool(self.directory / "run-hang", nodes=1))
            self.environment = os.environ | pool
            digest = ["sha256sum", str(self.file)]
            self.assertTrue(self.exec_on("0", digest).communicate()[0].startswith(self.digest))
            hung = []
            stack.callback(lambda: [program.communicate() for program in hung])  # once the file system is gone
            stack.enter_context(workbench.counting_mount(self.files, mount))
            for i in range(loads):
                part = ["dd", f"if={mount}/hung", "bs=64K", f"skip={i}", "count=1"]
                hung.append(self.exec_on("0", part, under=mount))
                stack.callback(hung[-1].kill)
            wait_for(lambda: workbench.reads_hung(mount) >= 8, "the loads to hang")
            before = self.status()["nodes"][0]
            self.assertTrue(self.exec_on("0", digest).communicate()[0].startswith(self.digest))
            after = self.status()["nodes"][0]
            self.assertGreaterEqual(after["hit_bytes"] - before["hit_bytes"], workbench.size(self.file))

    def test_a_file_system_hangs_when_it_is_asked_for_its_name(self):
        """Each program that reads there is told to do without the node, which goes on to serve all programs."""
        runtime = self.directory / "run-nameless"
        mount = self.directory / "nameless-mount"
        with contextlib.ExitStack() as stack:
            self.environment = os.environ | stack.enter_context(workbench.pool(runtime, nodes=1))
            stack.enter_context(workbench.counting_mount(self.files, mount))
            preloaded = os.environ | workbench.preloaded(runtime / "node-0.sock", mount, self.files)
            workbench.hang_at_root(mount)
            programs = []
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            for _ in range(24):  # more than the node has threads
                programs.append(subprocess.Popen(["sha256sum", mount / "binary"], env=preloaded, **pipes))
                stack.callback(programs[-1].kill)
            for program in programs:
                output, errors = program.communicate(timeout=TIMEOUT_S)
                self.assertTrue(output.startswith(self.digest))
                self.assertEqual(errors, "")  # the node is not given up
            self.assertGreaterEqual(self.status()["nodes"][0]["busy"], len(programs))
            for _ in range(2):
                done = subprocess.run(["sha256sum", self.file], env=preloaded, stdout=subprocess.PIPE, check=True)
                self.assertTrue(done.stdout.startswith(self.digest.encode()))
            self.assertGreaterEqual(self.status()["nodes"][0]["hit_bytes"], workbench.size(self.file))

    def test_a_file_system_is_slow(self):
        """Its load goes on, the program does without it, and the node stays the one that serves it."""
        mount = self.directory / "slow-mount"
        digest = hashlib.sha256((self.files / "slow").read_bytes()).hexdigest()
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(workbench.pool(self.directory / "run-slow", nodes=1))
            self.environment = os.environ | pool
            stack.enter_context(workbench.counting_mount(self.files, mount))
            # The first read is the node's; that of the program itself, once it is told not to wait, does not hang.
            read = ["sha256sum", str(mount / "slow"), str(mount / "text")]
            output, errors = self.exec_on("0", read, under=mount).communicate(timeout=TIMEOUT_S)
            self.assertTrue(output.startswith(digest))
            self.assertEqual(errors, "")
            node = self.status()["nodes"][0]
            self.assertGreaterEqual(node["busy"], 1)
            self.assertGreater(node["blocks"], 0)  # of the other file: the node was not given up
            workbench.release_slow_read(mount)
            wait_for(lambda: self.status()["nodes"][0]["blocks"] > node["blocks"], "the slow load to end")
            before = self.status()["nodes"][0]["hit_bytes"]
            output, errors = self.exec_on("0", read, under=mount).communicate(timeout=TIMEOUT_S)
            self.assertTrue(output.startswith(digest))
            self.assertGreaterEqual(
                self.status()["nodes"][0]["hit_bytes"] - before,
                workbench.size(self.files / "slow") + workbench.size(self.files / "text"),
            )

    def test_a_stopped_node_costs_its_host_one_wait(self):
        """And one line on standard error. Each program that waited for itself would take 10 s."""
        runtime = self.directory / "run-silent"
        with contextlib.ExitStack() as stack:
            self.environment = os.environ | stack.enter_context(workbench.pool(runtime, nodes=1))
            preloaded = os.environ | workbench.preloaded(runtime / "node-0.sock", self.files)
            node = self.status()["nodes"][0]["process"]
            os.kill(node, signal.SIGSTOP)
            stack.callback(os.kill, node, signal.SIGCONT)
            start = time.monotonic()
            lines = []
            for _ in range(8):
                done = subprocess.run(
                    ["sha256sum", self.file], env=preloaded, capture_output=True, text=True, timeout=TIMEOUT_S
                )
                self.assertTrue(done.stdout.startswith(self.digest))
                lines += done.stderr.splitlines()
            self.assertLess(time.monotonic() - start, TIMEOUT_S)
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("cannot reach the node", lines[0])
            os.kill(node, signal.SIGCONT)
            wait_for(lambda: not (runtime / "node-0.sock.silent").exists(), "the node to notice that it was given up")
            subprocess.run(["sha256sum", self.file], env=preloaded, stdout=subprocess.DEVNULL, check=True)
            self.assertGreater(self.status()["nodes"][0]["blocks"], 0)

    def test_what_is_left_to_the_kernel_is_counted(self):
        """Descriptors, however often they are read, and mappings."""
        read_each_way = (
            "import mmap, os, sys\n"
            "with open(sys.argv[1], 'rb') as file: mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
            "with open(sys.argv[1], 'r+b') as file: file.read(1)\n"
            "for _ in range(2):\n"
            "    direct = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n"
            "    for _ in range(3): assert os.readv(direct, [mmap.mmap(-1, 4096)]) == 4096\n"
            "with open(sys.argv[2], 'wb') as file: file.write(b'just now')\n"
            "with open(sys.argv[2], 'rb', buffering=0) as file: assert file.read(4) + file.read(4) == b'just now'\n"
        )
        fresh = self.files / "fresh"
        self.addCleanup(fresh.unlink)
        with contextlib.ExitStack() as stack:
            self.environment = os.environ | stack.enter_context(workbench.pool(self.directory / "run-kernel", nodes=1))
            for times in (1, 2):
                program = self.exec_on("0", [sys.executable, "-c", read_each_way, str(self.file), str(fresh)])
                _, errors = program.communicate(timeout=TIMEOUT_S)
                self.assertEqual((program.returncode, errors), (0, ""))
                node = self.status()["nodes"][0]
                counted = [node[name] for name in ("mappings", "mapped_bytes", "writable", "direct", "fresh")]
                self.assertEqual(counted, [times * each for each in (1, workbench.size(self.file), 1, 2, 1)])
                self.assertEqual((node["blocks"], node["hits"], node["around"]), (0, 0, 0))  # it was not asked
            shown = subprocess.check_output([FARSIDE, "status"], env=self.environment, text=True)
            self.assertIn("4 files with O_DIRECT, 2 files open for writing, 2 files that had just changed", shown)
            static = self.exec_on("0", [str(workbench.BIN / "static_cat"), str(self.files / "text")])
            self.assertIn("linked statically", static.communicate(timeout=TIMEOUT_S)[1])

    def test_what_the_node_leaves_to_the_kernel_is_counted(self):
        """It is asked once for a descriptor of a file that another process may write."""
        with contextlib.ExitStack() as stack:
            self.environment = os.environ | stack.enter_context(workbench.pool(self.directory / "run-around", nodes=1))
            stack.enter_context(open(self.file, "r+b"))
            for times in (1, 2):
                output, errors = self.exec_on("0", ["sha256sum", str(self.file)]).communicate(timeout=TIMEOUT_S)
                self.assertEqual((output.split()[0], errors), (self.digest, ""))
                node = self.status()["nodes"][0]
                self.assertEqual((node["around"], node["blocks"]), (times, 0))


if __name__ == "__main__":
    unittest.main()
