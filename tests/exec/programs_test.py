"""Unmodified programs do under farside exactly what they do without, and read every byte out of the pool."""
import itertools
import pathlib
import shlex
import sys
import unittest

import workbench

READS = shlex.quote(str(pathlib.Path(__file__).with_name("python_reads.py")))
PYTHON = shlex.quote(sys.executable)
STATIC_CAT = shlex.quote(str(workbench.BIN / "static_cat"))

# What is run, in a shell whose variable d is the directory with the files, and which of them it reads from end to end.
FROM_THE_POOL = {
    "cat": ("cat $d/text $d/binary", "text binary"),
    "wc": ("wc $d/text", "text"),
    "md5sum": ("md5sum $d/binary $d/text", "text binary"),
    "sha256sum": ("sha256sum $d/binary", "binary"),
    "grep": ("grep -rn needle $d/tree | sort", "tree"),
    "sort": ("sort -n $d/text", "text"),
    "cmp": ("cmp -l $d/binary $d/almost", "binary almost"),
    "tar": ("tar cf - --sort=name -C $d tree", "tree"),
    "cp": ("cp -r $d/tree $d/binary .", "tree binary"),
    "cp in place": ("cp $d/binary $d/copy && rm $d/copy", "binary"),
    "dd": ("dd if=$d/binary bs=7001 status=none", "binary"),
    "od": ("od -c $d/text | tail -n 20", "text"),
    "find": ("find $d/tree -type f -exec md5sum {} + | sort", "tree"),
    "gzip": ("gzip -dc $d/packed.gz", "packed.gz"),
    "standard input": ("md5sum < $d/binary; (head -n 2; wc -w) < $d/text", "text binary"),
    "pipeline": ("cat $d/text | sort | uniq -c; (md5sum $d/text & md5sum $d/binary; wait) | sort", "text binary"),
    "no such file": ("cat $d/missing", ""),
    "a directory": ("cat $d/tree", ""),
    "python whole": (f"{PYTHON} {READS} whole $d/binary", "binary"),
    "python text": (f"{PYTHON} {READS} text $d/text", "text"),
    "python readinto": (f"{PYTHON} {READS} readinto $d/binary", "binary"),
    "python seek": (f"{PYTHON} {READS} seek $d/binary", "binary"),
    "python positioned": (f"{PYTHON} {READS} positioned $d/binary", "binary"),
    "python copyfile": (f"{PYTHON} {READS} copyfile $d/binary copy", "binary"),
    "python fork": (f"{PYTHON} {READS} fork $d/binary", "binary"),
    "python posix_spawn": (f"{PYTHON} {READS} posix_spawn $d/binary", "binary"),
    "python spawn": (f"{PYTHON} {READS} spawn $d/binary", "binary"),
}

# The same, but parts of the files suffice.
PARTS_FROM_THE_POOL = {
    "head": ("head -n 70 $d/text; head -c 100000 $d/binary", "text binary"),
    "tail": ("tail -c 100 $d/binary; tail -n 3 $d/text", "text binary"),
    "dd skip": ("dd if=$d/binary bs=7001 skip=30 count=99 status=none", "binary"),
    "shell": ("while read -r a b c; do echo $c; done < $d/text | head -n 300", "text"),
    "sqlite3 -readonly": ("sqlite3 -readonly $d/database 'select max(name) from people where id < 999'", "database"),
}

# And those whose reads must pass to the kernel, with the reason.
FROM_THE_KERNEL = {
    "python mapped": (f"{PYTHON} {READS} mapped $d/binary", "a mapping is filled by the kernel"),
    "git log": ("git -c safe.directory=* -C $d/repository log --stat", "git maps its objects"),
    "static": (f"{STATIC_CAT} $d/binary", "nothing can be preloaded into a static program"),
    "sqlite3": ("sqlite3 $d/database 'select count(*), max(name) from people'", "it opens its file for writing, too"),
}


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(workbench.bench())
        cls.numbers = itertools.count()
        cls.pool = cls.enterClassContext(workbench.pool(cls.directory / "pool", nodes=2))

    def runs(self, command):
        """Runs `command` plainly, then on node 0, then on node 1, all on a file system of its own; checks that they
        agree. Returns how many bytes each run read from the file system."""
        mount = self.directory / f"mount-{next(self.numbers)}"
        counts = []
        outcomes = []
        with workbench.counting_mount(self.directory / "files", mount):
            for node in (None, "0", "1"):
                farside = [str(workbench.BIN / "farside"), "exec", "--node", node, "--under", str(mount), "--"]
                whole_command = (farside if node else []) + ["sh", "-c", command]
                before = workbench.bytes_read(mount)
                outcomes.append(workbench.run(whole_command, self.directory / "scratch", self.pool | {"d": str(mount)}))
                counts.append(workbench.bytes_read(mount) - before)
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(outcomes[0], outcomes[2])
        return counts

    def sizes(self, names):
        return sum(workbench.size(self.directory / "files" / name) for name in names.split())

    def test_each_byte_is_read_once_from_the_file_system(self):
        for name, (command, files) in FROM_THE_POOL.items():
            with self.subTest(name):
                _, on_first_node, on_second_node = self.runs(command)
                self.assertEqual((on_first_node, on_second_node), (self.sizes(files), 0))

    def test_no_more_is_read_than_needed(self):
        for name, (command, files) in PARTS_FROM_THE_POOL.items():
            with self.subTest(name):
                _, on_first_node, on_second_node = self.runs(command)
                self.assertGreater(on_first_node, 0)
                self.assertLessEqual(on_first_node, self.sizes(files))
                self.assertEqual(on_second_node, 0)

    def test_other_reads_pass_to_the_kernel(self):
        for name, (command, reason) in FROM_THE_KERNEL.items():
            with self.subTest(name, reason=reason):
                plain, _, on_second_node = self.runs(command)
                self.assertGreater(plain, 0)
                self.assertGreater(on_second_node, 0)


if __name__ == "__main__":
    unittest.main()
