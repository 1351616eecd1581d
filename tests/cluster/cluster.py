"""Two hosts (hosts.py) under Slurm, with munge, slurmctld and a slurmd each. For a program that is isolated."""
import os
import subprocess
import sys

import hosts
from waiting import TIMEOUT_S, wait_for

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun", "sbatch"]

CONFIGURATION = """\
ClusterName=farside
SlurmctldHost=host0({first.address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdSpoolDir={directory}/%n/spool
SlurmdPidFile={directory}/%n/slurmd.pid
SlurmdLogFile={directory}/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
NodeName=host0 NodeAddr={first.address} CPUs=8
NodeName=host1 NodeAddr={other.address} CPUs=8
PartitionName=main Nodes=ALL Default=YES State=UP
"""


class Cluster:
    def __init__(self):
        self.directory = hosts.shared_directory("slurm")
        self.hosts = hosts.Hosts(2)
        self.environment = os.environ | {"SLURM_CONF": f"{self.directory}/slurm.conf"}
        try:
            self.start_slurm()
        except TimeoutError:
            for log in sorted(self.directory.glob("*.out")):
                print(f"== {log.name}\n{log.read_text()}", file=sys.stderr)
            raise

    def start_slurm(self):
        first, other = self.hosts
        for part in ["state", *(f"{host.name}/spool" for host in self.hosts)]:
            (self.directory / part).mkdir(parents=True)
        configuration = CONFIGURATION.format(directory=self.directory, first=first, other=other)
        (self.directory / "slurm.conf").write_text(configuration)
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        munge = [f"--{what}={self.directory}/munge.{ending}" for what, ending in
                 [("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"),
                  ("seed-file", "seed")]]  # fmt: skip
        self.daemon(first, ["munged", "--foreground", "--force", *munge])
        wait_for((self.directory / "munge.socket").exists, "munged")
        self.daemon(first, ["slurmctld", "-D"])
        for host in self.hosts:
            self.daemon(host, ["slurmd", "-D", "-N", host.name])
        wait_for(lambda: self.run(["sinfo", "-h", "-t", "idle", "-o", "%D"]).stdout.strip() == "2", "two idle nodes")

    def daemon(self, host, command):
        with (self.directory / f"{command[0]}-{host.name}.out").open("w") as log:
            host.start(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def run(self, command, **environment):
        """`command`, as a user that is logged in on the first host and works in the shared directory."""
        environment = self.environment | environment
        return self.hosts[0].run(command, directory=self.directory, env=environment, timeout=2 * TIMEOUT_S)
