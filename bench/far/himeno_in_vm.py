"""Himeno with 360 of its 591 MB here, in every way that a kernel and farside have (table 4 of Goto et al., remote swap
memory). Prints a table for docs/benchmarks/far.md."""
import argparse
import json
import statistics

from machine import Machines, accelerator

ROUNDS = 2
PAPER_BYTES = 591 << 20
LOCAL_BYTES = 360_000_000
FILE_SYSTEM_BYTES = 32 << 20  # what one needs for itself, at most

# Name, what is done before, the command, and what is done after.
PLAIN = "in_group far-kernel"
SWAP = ("swapon /dev/nbd0", "swapoff /dev/nbd0")
ZRAM = ("swapon /dev/zram0", "swapoff /dev/zram0")
WAYS = {
    "in memory": ("", "far-kernel", "", ""),
    "kernel's swap on the device": (SWAP[0], PLAIN, "", SWAP[1]),
    "kernel's swap on the device, locked": (SWAP[0], PLAIN, "--lock", SWAP[1]),
    "file map on the device": ("", PLAIN, "--map /tmp/mounted/file", ""),
    "file map on the device, locked": ("", PLAIN, "--map /tmp/mounted/file --lock", ""),
    "kernel's swap to zram": (ZRAM[0], PLAIN, "", ZRAM[1]),
    "pager": ("", "far-kernel-in-heap", "--local LOCAL", ""),
    "pager, hints": ("", "far-kernel-in-heap", "--local LOCAL --hints", ""),
}

SET_UP = """
export PATH=$PWD/build/release/bin:$PWD/build/release/libexec/farside:$PATH
plugin=$PWD/build/release/lib/nbdkit/plugins/nbdkit-farside-plugin.so
farside up -n 2 --cache 16M --far LENT
for device in 0 1; do
  nbdkit --swap --unix /run/far$device $plugin size=DEVICE
  nbd-client -unix /run/far$device /dev/nbd$device -swap
done
mkswap /dev/nbd0
mkfs.ext4 -q /dev/nbd1
mkdir /tmp/mounted
mount /dev/nbd1 /tmp/mounted
echo DEVICE >/sys/block/zram0/disksize
mkswap /dev/zram0
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small
echo LOCAL >/sys/fs/cgroup/small/memory.max
in_group() { (echo $BASHPID >/sys/fs/cgroup/small/cgroup.procs; exec "$@"); }
"""


def script(bytes_used, local_bytes, repetitions):
    lines = [SET_UP]
    for _ in range(repetitions):
        for name, (before, command, options, after) in WAYS.items():
            kernel = f"{command} himeno --bytes {bytes_used} --rounds {ROUNDS} {options}"
            lines += [before, f'echo "way {name}"', kernel, after, "rm -f /tmp/mounted/file"]
    text = "\n".join(lines)
    for word, value in (("LOCAL", local_bytes), ("DEVICE", (bytes_used * 5 // 4 >> 20 << 20) + FILE_SYSTEM_BYTES),
                        ("LENT", bytes_used * 2 + FILE_SYSTEM_BYTES)):
        text = text.replace(word, str(value))
    return text


def runs_of(output):
    """By way, the answers of the kernel."""
    runs = {name: [] for name in WAYS}
    name = None
    for line in output.splitlines():
        if line.startswith("way "):
            name = line.removeprefix("way ")
        elif line.startswith("{"):
            runs[name].append(json.loads(line))
    return runs


def print_table(runs):
    def speeds(way):
        return [run["operations"] / run["seconds"] / 1e6 for run in runs[way]]

    in_memory = statistics.median(speeds("in memory"))
    print("| Himeno | best, MFLOPS | mean | of in memory | in a round | out a round |")
    print("| --- | --- | --- | --- | --- | --- |")
    for way in WAYS:
        share = statistics.median(speeds(way)) / in_memory
        amounts = [statistics.mean(run[key] for run in runs[way]) / ROUNDS / 1e6 for key in ("bytes_in", "bytes_out")]
        print(f"| {way} | {max(speeds(way)):.0f} | {statistics.mean(speeds(way)):.0f} | {share:.2f} | "
              + " | ".join(f"{amount:.0f} MB" for amount in amounts) + " |")
    if len({run["checked"] for answers in runs.values() for run in answers}) != 1:
        raise SystemExit("not all computed the same")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench-vm", description=__doc__)
    parser.add_argument("--full", action="store_true", help="with the paper's memory; otherwise with a sixteenth of it")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    divisor = 1 if options.full else 16
    with Machines() as machines:
        machines.start("alone", script(PAPER_BYTES // divisor, LOCAL_BYTES // divisor, options.repetitions), memory="4G")
        [output] = machines.outputs("alone")
    print(f"{PAPER_BYTES // divisor / 1e6:.0f} MB, {LOCAL_BYTES // divisor / 1e6:.0f} of them here; accelerator {accelerator()}\n")
    print_table(runs_of(output))


main()
