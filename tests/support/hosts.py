"""Hosts made out of this machine's namespaces, joined by a switch. Each has its own network, host name, /tmp, /run and
/dev/shm; all have one kernel and the same other files. Only root can make them.

Nothing has to be cleaned up: the test program runs as a child of the first process of a pid namespace (`isolate`), in
network and mount namespaces of its own. The kernel ends all of them, with whatever still runs, when that process or who
started it ends for any reason.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import workbench
from waiting import TIMEOUT_S, wait_for

DEVICE = "far0"  # on each host, for UCX_NET_DEVICES
NO_HOST = "02:00:00:00:00:ff"  # a hardware address that no host has
SKIPPED = 77  # what ctest takes for a skipped test
NAMESPACES = ["--net", "--mount", "--uts"]
SHARED = pathlib.Path("/mnt")  # an empty file system in memory, which all hosts see
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# Of /sys a host sees its own network devices; the control groups are those of the machine. The repository may lie below
# a directory of which each host has its own: the descriptor still names it when that directory is covered.
BECOME_A_HOST = """\
hostname "$1"
exec 9<"$2"
for place in /tmp /run /dev/shm; do mount -t tmpfs none "$place"; done
mkdir -p "$2"
mount --no-canonicalize --bind /proc/self/fd/9 "$2"
touch /run/hosts
mount --bind /run/hosts /etc/hosts
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs none /sys
mount --rbind /run/cgroup /sys/fs/cgroup
ip link set lo up
echo ready
exec sleep infinity
"""


def missing(programs=()):
    """Why there can be no hosts with these programs here, or None."""
    if os.geteuid() != 0:
        return "only root can make hosts out of namespaces"
    if REPOSITORY.is_relative_to(SHARED):
        return f"the repository is in {SHARED}, which the hosts' shared file system covers"
    absent = [program for program in ["ip", "unshare", "nsenter", *programs] if shutil.which(program) is None]
    if absent:
        return f"not installed: {' '.join(absent)}"
    probe = ["unshare", "--pid", "--fork", "--mount-proc", *NAMESPACES, "mount", "-t", "sysfs", "none", "/sys"]
    tried = subprocess.run(probe, capture_output=True, text=True)
    return f"no namespaces can be made: {tried.stderr.strip()}" if tried.returncode else None


def isolate(programs=()):
    """Starts this program anew where its hosts and processes end with it, or ends it as skipped. Returns there only."""
    if os.environ.pop("FARSIDE_TEST_ISOLATED", None) is None:
        if reason := missing(programs):
            print(f"skipped: {reason}")
            sys.exit(SKIPPED)
        again = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *NAMESPACES, sys.executable, *sys.argv]
        os.execvpe(again[0], again, os.environ | {"FARSIDE_TEST_ISOLATED": "1"})
    subprocess.run(["mount", "-t", "tmpfs", "none", SHARED], check=True)
    program = os.fork()
    if program == 0:
        return
    while True:  # the first process of a pid namespace has to wait for those that lost their parents
        ended, status = os.wait()
        if ended == program:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def shared_directory(name):
    """A new one, which is the same on all hosts."""
    directory = SHARED / name
    directory.mkdir()
    return directory


class Host:
    """A process that does nothing but hold the namespaces, and what is needed to work in them."""

    def __init__(self, index):
        self.index = index
        self.name = f"host{index}"
        self.address = f"10.213.7.{index + 1}"
        self.hardware = f"02:00:00:00:00:{index + 1:02x}"
        become = ["unshare", *NAMESPACES, "sh", "-ec", BECOME_A_HOST, "sh", self.name, REPOSITORY]
        self.holder = subprocess.Popen(become, stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise RuntimeError(f"cannot make {self.name}: see above")

    def start(self, command, directory=SHARED, **options):
        enter = ["nsenter", f"--target={self.holder.pid}", *NAMESPACES, f"--wdns={directory}"]
        return subprocess.Popen([*enter, *map(str, command)], **options)

    def run(self, command, timeout=TIMEOUT_S, **options):
        """To its end; returns its exit code, and what it printed as text."""
        process = self.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def do(self, command):
        """As `run`, for what has to succeed. What it printed."""
        done = self.run(command)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: {command}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def path(self, path):
        """Where that path of the host is reached from outside."""
        return pathlib.Path(f"/proc/{self.holder.pid}/root/{path}")


class Hosts:
    """Hosts host0, host1, ... that all reach each other, until their links are cut. For a program that is isolated."""

    def __init__(self, count):
        self.all = [Host(index) for index in range(count)]
        names = "".join(f"{host.address} {host.name}\n" for host in self.all)
        for host in self.all:
            host.path("etc/hosts").write_text(f"127.0.0.1 localhost\n{names}")
        self._join_by_switch()
        self.heal()

    def __iter__(self):
        return iter(self.all)

    def __getitem__(self, index):
        return self.all[index]

    def _join_by_switch(self):
        def ip(*words):
            subprocess.run(["ip", *words], check=True)

        ip("link", "add", "switch", "type", "bridge")
        ip("link", "set", "switch", "up")
        for host in self.all:
            port = f"port{host.index}"
            ip("link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", str(host.holder.pid))
            ip("link", "set", port, "master", "switch", "up")
            host.do(["ip", "link", "set", DEVICE, "address", host.hardware, "addrgenmode", "none", "up"])
            host.do(["ip", "address", "add", f"{host.address}/24", "dev", DEVICE])
        for host in self.all:  # the kernel says so a while after both ends of the cable were set up
            state = host.path(f"sys/class/net/{DEVICE}/operstate")
            wait_for(lambda: state.read_text() == "up\n", f"the network of {host.name}")

    def move(self, host):
        """Gives the host another address, as to a machine that takes the place of a broken one."""
        former, host.address = host.address, f"10.213.7.{host.index + 101}"
        host.do(["ip", "address", "delete", f"{former}/24", "dev", DEVICE])
        host.do(["ip", "address", "add", f"{host.address}/24", "dev", DEVICE])
        self.heal()

    def cut(self, sender, receiver):
        """From now on nothing that `sender` sends reaches `receiver`, and no host is told. The other direction stays."""
        self._send_to(sender, receiver, NO_HOST)

    def cut_both(self, one, other):
        self.cut(one, other)
        self.cut(other, one)

    def heal(self):
        for sender in self.all:
            for receiver in self.all:
                if receiver is not sender:
                    self._send_to(sender, receiver, receiver.hardware)

    def _send_to(self, sender, receiver, hardware):
        entry = [receiver.address, "lladdr", hardware, "dev", DEVICE, "nud", "permanent"]
        sender.do(["ip", "neighbor", "replace", *entry])


class Group(list):
    """Some of the hosts."""

    @property
    def all(self):
        return self


class FileServer:
    """A directory that the hosts have mounted, and read alike, at one place: files are the same to the nodes of all of
    them. It counts what each host asks for."""

    def __init__(self, name, hosts):
        self.hosts = hosts
        self.source = shared_directory(f"{name}-source")
        self.mountpoint = shared_directory(name)
        for host in hosts:
            host.start([workbench.BIN / "counting_fs", self.source, self.mountpoint, "-o", f"fsname=server:/{name},subtype=glusterfs"])
        for host in hosts:
            wait_for(host.path(self.mountpoint).is_mount, f"the files on {host.name}")

    def bytes_read(self):
        """By each host."""
        return [workbench.bytes_read(host.path(self.mountpoint)) for host in self.hosts]
