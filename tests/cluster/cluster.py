"""Two machines under Slurm, on this one: network, mount and host-name namespaces of their own, joined by a cable (veth),
with munge, slurmctld and a slurmd each. Nothing outside `directory` is touched; root only."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

PATIENCE_S = 60
NEEDED = ["ip", "unshare", "nsenter", "munged", "slurmctld", "slurmd", "srun", "sbatch"]
NAMES = ["first", "other"]
ADDRESSES = ["10.213.7.1", "10.213.7.2"]

CONFIGURATION = """\
ClusterName=farside
SlurmctldHost=first(10.213.7.1)
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
TmpFS={directory}/%n/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
NodeName=first NodeAddr=10.213.7.1 CPUs=8
NodeName=other NodeAddr=10.213.7.2 CPUs=8
PartitionName=main Nodes=ALL Default=YES State=UP
"""

# What a host is, from within its new namespaces: $1 the cluster's directory, $2 its name. Of /sys it sees its own network
# devices; slurmd wants the control groups there as well.
HOST = """\
hostname "$2"
mount --bind "$1/hosts" /etc/hosts
mount -t tmpfs none /tmp
mount --rbind /sys/fs/cgroup "$1/$2/cgroup"
mount -t sysfs none /sys
mount --rbind "$1/$2/cgroup" /sys/fs/cgroup
ip link set lo up
touch "$1/$2/ready"
exec sleep infinity
"""


def missing():
    """Why there can be no cluster here, or None."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    absent = [program for program in NEEDED if shutil.which(program) is None]
    if absent:
        return f"not installed: {' '.join(absent)}"
    probe = ["unshare", "--net", "--mount", "--uts", "mount", "-t", "sysfs", "none", "/sys"]
    tried = subprocess.run(probe, capture_output=True, text=True)
    return f"no namespaces can be made: {tried.stderr}" if tried.returncode else None


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


class Cluster:
    """As a context manager: up when it is entered, gone when it is left, whatever happened."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.hosts = []  # each a process that does nothing but hold its namespaces
        self.daemons = []

    def __enter__(self):
        with contextlib.ExitStack() as clean_up:
            clean_up.callback(self.end)
            clean_up.callback(self.print_logs)
            self.make_hosts()
            self.start_slurm()
            clean_up.pop_all()
        return self

    def print_logs(self):
        for log in sorted(self.directory.glob("*.out")):
            print(f"== {log.name}\n{log.read_text()}", file=sys.stderr)

    def __exit__(self, *_):
        self.end()

    def make_hosts(self):
        (self.directory / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in zip(ADDRESSES, NAMES))
        )
        for name in NAMES:
            for part in ["cgroup", "spool", "tmp"]:
                (self.directory / name / part).mkdir(parents=True)
            self.hosts.append(
                subprocess.Popen(
                    ["unshare", "--net", "--mount", "--uts", "sh", "-ec", HOST, name, str(self.directory), name]
                )
            )
            wait_for((self.directory / name / "ready").exists, f"the namespaces of {name}")
        first, other = (str(host.pid) for host in self.hosts)
        self.on(0, ["ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", other])
        for index, address in enumerate(ADDRESSES):
            self.on(index, ["ip", "address", "add", f"{address}/24", "dev", "cable"])
            self.on(index, ["ip", "link", "set", "cable", "up"])

    def start_slurm(self):
        (self.directory / "state").mkdir()
        (self.directory / "slurm.conf").write_text(CONFIGURATION.format(directory=self.directory))
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        munge = [f"--{what}={self.directory}/munge.{ending}" for what, ending in
                 [("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"),
                  ("seed-file", "seed")]]  # fmt: skip
        self.daemon(0, ["munged", "--foreground", "--force", *munge])
        wait_for((self.directory / "munge.socket").exists, "munged")
        self.daemon(0, ["slurmctld", "-D"])
        for index, name in enumerate(NAMES):
            self.daemon(index, ["slurmd", "-D", "-N", name])
        wait_for(lambda: self.run(["sinfo", "-h", "-t", "idle", "-o", "%D"]).stdout.strip() == "2", "two idle nodes")

    def inside(self, index, command):
        namespaces = f"--target={self.hosts[index].pid}"
        return ["nsenter", namespaces, "--net", "--mount", "--uts", "--wdns=" + str(self.directory), *command]

    def environment(self):
        return os.environ | {"SLURM_CONF": f"{self.directory}/slurm.conf"}

    def on(self, index, command):
        subprocess.run(self.inside(index, command), check=True)

    def daemon(self, index, command):
        with (self.directory / f"{command[0]}-{NAMES[index]}.out").open("w") as log:
            self.daemons.append(
                subprocess.Popen(self.inside(index, command), env=self.environment(), stdout=log, stderr=log)
            )

    def run(self, command, **environment):
        """`command`, as somebody who is logged in on the first machine."""
        return subprocess.run(
            self.inside(0, command),
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )

    def processes(self):
        """All that run in one of the hosts' network namespaces, but for the holders of these."""
        own = [os.readlink(f"/proc/{host.pid}/ns/net") for host in self.hosts]
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns/net") in own and int(process.name) not in [h.pid for h in self.hosts]:
                    found.append(int(process.name))
        return found

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.daemons + self.hosts:
            process.kill()
            process.wait()
