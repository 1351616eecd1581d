"""Virtual machines on Debian's kernel, made by qemu, in which a script runs on this machine's own files."""
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BOOT = REPOSITORY / "build" / "vm"
# Only a failing test waits that long. An emulated machine takes minutes for what this one does in seconds.
TIMEOUT_S = 900
# All tests together: what is not done by then has failed.
END = time.monotonic() + 3 * TIMEOUT_S
# Over Soft-RoCE. With another GID index than this, UCX's handshake times out.
VERBS = "export FARSIDE_FABRIC=ucx UCX_TLS=rc_v UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0\n"


def boot(name, accelerator, *options, memory="2G", **popen):
    """Starts a machine, which ends with this process. `name` is its host name, or "none": then it only switches off."""
    command = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", accelerator, "-cpu", "max", "-smp", "2"]
    command += ["-m", memory, "-nodefaults", "-nographic", "-no-reboot"]
    command += ["-kernel", str(BOOT / "vmlinuz"), "-initrd", str(BOOT / "initramfs")]
    # While this machine is busy, the kernel would take its emulated timer for broken.
    command += ["-append", f"console=ttyS0 quiet panic=-1 no_timer_check name={name}", *options]
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


class Machines:
    """Machines that share a folder, /shared to them, and perhaps a cable. All end with the `with` block."""

    def __init__(self):
        self.shared = pathlib.Path(tempfile.mkdtemp(prefix="farside-vm."))
        (self.shared / "repository").write_text(str(REPOSITORY))
        self.processes = {}
        self.begun = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        print(f"{time.monotonic() - self.begun:.0f} s", end=", ", file=sys.stderr, flush=True)
        if kind is None:
            shutil.rmtree(self.shared)
        else:
            print(f"the machines' consoles and output are kept in {self.shared}", file=sys.stderr, flush=True)

    def start(self, name, script, cable=None, memory="2G"):
        """Boots a machine that runs `script` with bash. `cable` is the end it holds of one: "server" or "client"."""
        folder = self.shared / name
        folder.mkdir()
        (folder / "run").write_text(f"set -e\ncd {REPOSITORY}\n{script}")
        options = ["-serial", f"file:{folder}/console"]
        options += self._folder("files", "/", "readonly=on,") + self._folder("shared", self.shared, "")
        if cable:
            options += self._cable(cable)
        self.processes[name] = boot(name, accelerator(), *options, memory=memory)

    def _folder(self, tag, path, options):
        return ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,{options}multidevs=remap"]

    def _cable(self, end):
        path = self.shared / "cable"
        if end == "client":
            self.wait_for("cable")
        server = "on" if end == "server" else "off"
        card = f"virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:00:00:0{1 if end == 'server' else 2}"
        return ["-netdev", f"stream,id=cable,server={server},addr.type=unix,addr.path={path}", "-device", card]

    def outputs(self, *names):
        """What these machines' scripts have written, when all have ended well."""
        self._await(f"end of {' and '.join(names)}", lambda: all(self._code(name) == "0" for name in names))
        return [(self.shared / name / "output").read_text(errors="replace") for name in names]

    def wait_for(self, file):
        """Returns when one of the machines has put `file` into the shared folder."""
        self._await(file, (self.shared / file).exists)

    def kill(self, name):
        """As when the power fails."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _await(self, what, has_come):
        """Raises, with the last words of all machines, as soon as one of their scripts has failed."""
        deadline = min(time.monotonic() + TIMEOUT_S, END)
        while not has_come():
            failed = [name for name in self.processes if self._code(name) not in (None, "0")]
            if failed or time.monotonic() > deadline:
                why = f"machine {failed[0]} failed" if failed else "time is up"
                raise AssertionError(f"no {what}: {why}\n{self._last_words()}")
            time.sleep(0.05)

    def _code(self, name):
        """The exit code of a machine's script; None as long as the machine is on, "" if it went off too early."""
        if self.processes[name].poll() is None:
            return None
        code = self.shared / name / "code"
        return code.read_text().strip() if code.exists() else ""

    def _last_words(self):
        files = [file for kind in ("console", "output") for file in sorted(self.shared.glob(f"*/{kind}"))]
        return "".join(f"== {file}\n{file.read_text(errors='replace')[-8000:]}\n" for file in files)
