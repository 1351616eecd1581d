"""The systemd unit of examples/cluster starts a pool in the foreground, which ends as a service should."""
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

FARSIDE = os.environ["FARSIDE_BIN"] + "/farside"
UNIT = pathlib.Path(__file__).parents[2] / "examples" / "cluster" / "farside-node.service"


class Service(unittest.TestCase):
    def test_its_command_runs_a_pool_until_it_is_asked_to_end(self):
        line = next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
        command = shlex.split(line.removeprefix("ExecStart="))
        command[0] = FARSIDE
        command[command.index("--cache") + 1] = "16M"
        with tempfile.TemporaryDirectory() as directory:
            environment = os.environ | {"FARSIDE_RUNTIME_DIR": f"{directory}/run"}
            service = subprocess.Popen(command, env=environment)
            try:
                subprocess.run([FARSIDE, "status", "--wait", "60s"], env=environment, check=True)
                service.terminate()
                self.assertEqual(service.wait(60), 0)
                self.assertEqual(os.listdir(f"{directory}/run"), [])
            finally:
                service.kill()
                service.wait()


if __name__ == "__main__":
    unittest.main()
