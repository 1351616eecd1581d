"""Slurm starts farside: SPMD programs through PMIx, and unmodified programs over a pool of the job's machines, by the
scripts of examples/cluster."""
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import cluster

BIN = pathlib.Path(os.environ["FARSIDE_BIN"])
MEMBER = os.environ["FARSIDE_MEMBER"]
SCRIPTS = pathlib.Path(__file__).parents[2] / "examples" / "cluster"


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Not in /tmp: each machine has a /tmp of its own.
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="farside-slurm-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.cluster = cls.enterClassContext(cluster.Cluster(cls.directory))

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
        self.assertEqual(sorted(printed.splitlines()), [f"rank {rank} of 4" for rank in range(4)])

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

    def test_an_unmodified_program_reads_out_of_the_jobs_pool(self):
        files = self.directory / "files"
        files.mkdir()
        content = os.urandom(5 << 20)
        (files / "model").write_bytes(content)
        printed = self.submit(["--nodes=2"], "slurm-exec.sh", files, "sha256sum", files / "model")
        digest = hashlib.sha256(content).hexdigest()
        self.assertEqual(printed.count(f"{digest}  {files}/model\n"), 2, printed)
        self.assertEqual(list(self.directory.glob("farside-secret*")), [])
        cluster.wait_for(lambda: not self.farside_processes(), "the end of the job's pool")

    def farside_processes(self):
        def words(pid):
            try:
                return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                return [b""]

        return [pid for pid in self.cluster.processes() if words(pid)[0].endswith(b"/farside")]


if __name__ == "__main__":
    if reason := cluster.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
