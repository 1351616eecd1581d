"""What Prometheus collects of a pool's nodes and of a program with far memory."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import waiting
import pool
import prometheus


class Nodes(unittest.TestCase):
    def setUp(self):
        self.pool = pool.Pool("--cache", "16M", "--metrics", "127.0.0.1:0")
        self.addCleanup(self.pool.stop)
        lines = [self.pool.process.stdout.readline() for _ in range(2)]
        self.pages = {line.split(":")[0]: line.split()[-1] for line in lines}

    def values(self, node):
        return prometheus.parse(prometheus.fetch(self.pages[f"node {node}"]))

    def count(self, node, source):
        return self.values(node)[f'farside_cache_block_seconds_count{{from="{source}"}}']

    def read(self, node, file):
        ended = self.pool.run("exec", "--node", str(node), "--under", str(file.parent), "--", "cat", str(file))
        self.assertEqual(ended.stdout, "content")

    def test_tell_how_long_blocks_took(self):
        self.assertEqual([self.count(node, source) for node in (0, 1) for source in ("file", "memory")], [0] * 4)
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "file")
            file.write_text("content", encoding="utf-8")

            def is_read():  # once the file's times are old
                self.read(0, file)
                return self.count(0, "file") == 1
            waiting.wait_for(is_read, "the node does not read the file")
            self.read(1, file)
        self.assertEqual((self.count(0, "memory"), self.count(1, "file"), self.count(1, "memory")), (0, 0, 1))
        self.assertGreater(self.values(1)['farside_cache_block_seconds_sum{from="memory"}'], 0)
        first, second = json.loads(self.pool.run("status", "--json").stdout)["nodes"]
        self.assertGreater(first["file_p50_ns"], 0)
        self.assertEqual(first["memory_p99_ns"], 0)
        self.assertEqual(second["file_p50_ns"], 0)
        self.assertLessEqual(second["memory_p50_ns"], second["memory_p99_ns"])
        self.assertGreater(second["memory_p50_ns"], 0)
        self.assertIn("from memory: half within", self.pool.run("status").stdout)

    def test_tell_of_members_that_are_lost_and_return(self):
        self.assertEqual(self.values(0)["farside_team_members_lost_total"], 0)
        self.pool.kill_node(1)
        waiting.wait_for(lambda: self.values(0)["farside_team_members_returned_total"] == 1, "the node does not return")
        self.assertEqual(self.values(0)["farside_team_members_lost_total"], 1)


class Far(pool.OnASharedPool):
    def test_tells_how_long_faults_took(self):
        program = "b = bytearray(32 << 20); print('ready', flush=True); input()"
        process = self.pool.start("far", "--local", "8M", "--trust-nodes", "--metrics", "127.0.0.1:0", "--", sys.executable,
                                  "-c", program, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            page = process.stderr.readline().split()[-1]
            self.assertEqual(process.stdout.readline(), "ready\n")
            values = prometheus.parse(prometheus.fetch(page))
            self.assertGreater(values["farside_far_fault_seconds_count"], 0)
            self.assertGreater(values["farside_far_fault_seconds_sum"], 0)
            process.communicate("\n", timeout=waiting.TIMEOUT_S)
        self.assertEqual(process.returncode, 0)


class Addresses(unittest.TestCase):
    def test_are_of_this_machine_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            for command in (["up"], ["far", "--local", "8M", "--", "true"]):
                words = [command[0], "--metrics", "0.0.0.0:9150", *command[1:]]
                ended = subprocess.run([os.environ["FARSIDE_COMMAND"], *words], capture_output=True, text=True, check=False,
                                       env={**os.environ, "FARSIDE_RUNTIME_DIR": directory}, timeout=waiting.TIMEOUT_S)
                self.assertIn("other machines could reach them", ended.stderr)
                self.assertNotEqual(ended.returncode, 0)


if __name__ == "__main__":
    unittest.main()
