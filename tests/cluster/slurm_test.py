"""Slurm starts farside: SPMD programs through PMIx, and unmodified programs over a pool of the job's machines, by the
scripts of examples/cluster."""
import hashlib
import os
import pathlib
import random
import time
import unittest

import cluster
import hosts
import workbench
from waiting import wait_for

BIN = pathlib.Path(os.environ["FARSIDE_BIN"])
MEMBER = os.environ["FARSIDE_MEMBER"]
SCRIPTS = pathlib.Path(__file__).parents[2] / "examples" / "cluster"


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster()
        cls.directory = cls.cluster.directory

    def submit(self, options, script, *arguments):
        """Runs a job to its end; what it printed."""
        output = self.directory / f"{self.id()}.out"
        done = self.cluster.run(
            ["sbatch", "--wait", f"--output={output}", *options, str(SCRIPTS / script), *map(str, arguments)],
            PATH=f"{BIN}:{os.environ['PATH']}",
            FARSIDE_CACHE="64M",
        )
        printed = output.read_text() if output.exists() else ""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + printed)
        return printed

    def test_ranks_on_two_machines_form_a_team(self):
        printed = self.submit(["--nodes=2", "--ntasks-per-node=2"], "slurm-spmd.sh", MEMBER, "ring")
        # Beside them there may be the warning that UCX listens everywhere: this cluster names no devices.
        ranks = [line for line in printed.splitlines() if not line.startswith("farside: warning:")]
        self.assertEqual(sorted(ranks), [f"rank {rank} of 4" for rank in range(4)])

    def test_the_death_of_a_rank_ends_the_job(self):
        done = self.cluster.run(
            ["srun", "--mpi=pmix", "--kill-on-bad-exit=1", "--nodes=2", "--ntasks-per-node=2", MEMBER, "crash"]
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Killed", done.stderr)

    def test_a_step_without_pmix_is_refused(self):
        done = self.cluster.run(["srun", "--mpi=none", "--nodes=2", "--ntasks-per-node=2", MEMBER, "ring"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("srun --mpi=pmix", done.stderr)

    def test_unmodified_programs_read_out_of_the_jobs_pool(self):
        content = random.Random(1).randbytes(5 << 20)
        files = hosts.FileServer("model-files", self.cluster.hosts)
        (files.source / "model").write_bytes(content)
        time.sleep(workbench.SETTLED_S)
        printed = self.submit(["--nodes=2"], "slurm-exec.sh", files.mountpoint, "sha256sum", files.mountpoint / "model")
        digest = hashlib.sha256(content).hexdigest()
        self.assertEqual(printed.count(f"{digest}  {files.mountpoint}/model\n"), 2, printed)
        self.assertEqual(sum(files.bytes_read()), len(content))  # by both together
        self.assertEqual(list(self.directory.glob("farside-secret*")), [])
        wait_for(lambda: not self.farside_processes(), "the end of the job's pool")

    def farside_processes(self):
        command_lines = (path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"))
        return [words for words in command_lines if words.split(b"\0")[0].endswith(b"/farside")]


if __name__ == "__main__":
    hosts.isolate(cluster.PROGRAMS)
    unittest.main(warnings="ignore")  # the hosts are left to the kernel to end
