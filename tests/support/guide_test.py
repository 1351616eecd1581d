"""What a guide in docs/ shows is compiled and runs: its samples are parts of a program, line by line.

guide_test.py GUIDE SOURCE PROGRAM: the guide and the source by their paths in the repository, the program as it was built
beside the farside command.
"""
import pathlib
import re
import subprocess
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(sys.argv.pop())
SOURCE = REPOSITORY / sys.argv.pop()
GUIDE = REPOSITORY / sys.argv.pop()


def lines(code):
    """Without indentation and empty lines."""
    return [line.strip() for line in code.splitlines() if line.strip()]


class Guide(unittest.TestCase):
    def test_samples_are_parts_of_the_program(self):
        program = "\n".join(lines(SOURCE.read_text()))
        samples = re.findall(r"```cpp\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        self.assertGreater(len(samples), 3)
        for sample in samples:
            self.assertIn("\n".join(lines(sample)), program)

    def test_the_program_runs(self):
        subprocess.run([PROGRAM.parent / "farside", "run", "-n", "3", "--", PROGRAM], check=True, timeout=100)


if __name__ == "__main__":
    unittest.main()
