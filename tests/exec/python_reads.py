"""The ways in which Python programs read files. Prints a digest of what each got: python_reads.py WAY FILE [COPY]"""
import hashlib
import io
import mmap
import multiprocessing
import os
import shutil
import sys


def digest(data):
    return hashlib.sha256(data).hexdigest()


def whole(path):
    with open(path, "rb") as file:
        return file.read()


def text(path):
    with open(path, encoding="latin-1", newline="") as file:
        return "".join(file).encode("latin-1")


def readinto(path):
    result = bytearray()
    buffer = bytearray(10007)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            result += buffer[:count]
    return bytes(result)


def halves(path):
    """Says when it has read half, and goes on when told to."""
    with open(path, "rb", buffering=0) as file:
        content = file.read(os.path.getsize(path) // 2)
        print("half", flush=True)
        sys.stdin.readline()
        while part := file.read(100_000):
            content += part
        return content


def seek(path):
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        parts = []
        for offset in range(size - size % 4099, -1, -4099):
            file.seek(offset)
            parts.append(file.read(4099))
        assert file.seek(7) == 7 and file.tell() == 7
        return b"".join(reversed(parts))


def positioned(path):
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size
    buffers = [bytearray(size // 3), bytearray(size)]
    count = os.preadv(file, buffers, 0)
    assert count == size and os.pread(file, 10, size) == b"" and os.lseek(file, 0, os.SEEK_CUR) == 0
    os.close(file)
    return b"".join(buffers)[:count]


def mapped(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
        return bytes(view)


def copyfile(path):
    shutil.copyfile(path, sys.argv[3])
    return whole(sys.argv[3])


def posix_spawn(path):
    """What a program reads from the standard input that posix_spawn opens for it."""
    output, its_output = os.pipe()
    actions = [(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, its_output, 1)]
    child = os.posix_spawnp("cat", ["cat"], os.environ, file_actions=actions)
    os.close(its_output)
    with open(output, "rb") as file:
        content = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return content


def part(job):
    path, offset, count = job
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(count)


def processes(path, method):
    size = os.path.getsize(path)
    jobs = [(path, offset, 100_000) for offset in range(0, size, 100_000)]
    with multiprocessing.get_context(method).Pool(3) as pool:
        return b"".join(pool.map(part, jobs))


def fork(path):
    return processes(path, "fork")


def spawn(path):
    return processes(path, "spawn")


if __name__ == "__main__":
    print(digest(globals()[sys.argv[1]](sys.argv[2])))
