"""Virtual machines on Debian's kernel, made by qemu, in which a script runs on this machine's own files."""
import dataclasses
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BOOT = REPOSITORY / "build" / "vm"
# Only a failing test waits that long. An emulated machine takes minutes for what this one does in seconds.
PATIENCE_S = 900
# Over Soft-RoCE. With another GID index than this, UCX's handshake times out.
VERBS = "export FARSIDE_FABRIC=ucx UCX_TLS=rc_v UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0\n"


def boot(name, accelerator, *options, **popen):
    """Starts a machine, which ends with this process. `name` is its host name, or "none": then it only switches off."""
    command = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", accelerator, "-cpu", "max", "-smp", "2"]
    command += ["-m", "2G", "-nodefaults", "-nographic", "-no-reboot"]
    command += ["-kernel", str(BOOT / "vmlinuz"), "-initrd", str(BOOT / "initramfs")]
    command += ["-append", f"console=ttyS0 quiet panic=-1 name={name}", *options]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, **popen)


@functools.cache
def accelerator():
    """Hardware virtualisation if a machine boots with it: where it is nested it may be there and hang, or not work."""
    emulation = "tcg,thread=multi"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return emulation
    trial = boot("none", "kvm", stderr=subprocess.DEVNULL)
    try:
        works = trial.wait(10) == 0
    except subprocess.TimeoutExpired:
        trial.kill()
        trial.wait()
        works = False
    return "kvm" if works else emulation


@dataclasses.dataclass
class Outcome:
    """What became of a machine's script."""

    code: int
    output: str


class Machines:
    """Machines that share a folder, /shared to them, and perhaps a cable. All end with the `with` block."""

    def __init__(self):
        self.shared = pathlib.Path(tempfile.mkdtemp(prefix="farside-vm."))
        self.processes = {}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        if kind is None:
            shutil.rmtree(self.shared)
        else:
            print(f"The machines' consoles and output are kept in {self.shared}", flush=True)

    def start(self, name, script, cable=None):
        """Boots a machine that runs `script` with bash. `cable` is the end it holds of one: "server" or "client"."""
        folder = self.shared / name
        folder.mkdir()
        (folder / "run").write_text(f"set -e\ncd {REPOSITORY}\n{script}")
        options = ["-serial", f"file:{folder}/console"]
        options += self._folder("files", "/", "readonly=on,") + self._folder("shared", self.shared, "")
        if cable:
            options += self._cable(cable)
        self.processes[name] = boot(name, accelerator(), *options)

    def _folder(self, tag, path, options):
        return ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,{options}multidevs=remap"]

    def _cable(self, end):
        path = self.shared / "cable"
        if end == "client":
            self.wait_for("cable")
        server = "on" if end == "server" else "off"
        card = f"virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:00:00:0{1 if end == 'server' else 2}"
        return ["-netdev", f"stream,id=cable,server={server},addr.type=unix,addr.path={path}", "-device", card]

    def wait(self, name):
        """Returns when the machine has switched itself off."""
        try:
            self.processes[name].wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"machine {name} was not done after {PATIENCE_S} s:\n{self._said(name)}") from None
        code = self.shared / name / "code"
        if not code.exists():
            raise AssertionError(f"machine {name} did not come to its script's end:\n{self._said(name)}")
        return Outcome(int(code.read_text()), (self.shared / name / "output").read_text(errors="replace"))

    def wait_for(self, file):
        """Returns when one of the machines has put `file` into the shared folder, while all of them run."""
        deadline = time.monotonic() + PATIENCE_S
        while not (self.shared / file).exists():
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                why = f"machine {ended[0]} ended" if ended else f"after {PATIENCE_S} s"
                raise AssertionError(f"no {file}, {why}:\n{''.join(map(self._said, self.processes))}")
            time.sleep(0.05)

    def kill(self, name):
        """As when the power fails."""
        self.processes[name].kill()
        self.processes[name].wait()

    def _said(self, name):
        files = [self.shared / name / "console", self.shared / name / "output"]
        return "".join(file.read_text(errors="replace")[-8000:] for file in files if file.exists())
