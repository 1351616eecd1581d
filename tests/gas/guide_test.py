"""What docs/gas.md shows is compiled and runs: its samples are parts of guide.cc, line by line."""
import pathlib
import re
import subprocess
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv.pop())


def lines(code):
    """Without indentation and empty lines."""
    return [line.strip() for line in code.splitlines() if line.strip()]


class Guide(unittest.TestCase):
    def test_samples_are_parts_of_the_program(self):
        program = "\n".join(lines((REPOSITORY / "tests/gas/guide.cc").read_text()))
        samples = re.findall(r"```cpp\n(.*?)```", (REPOSITORY / "docs/gas.md").read_text(), re.DOTALL)
        self.assertGreater(len(samples), 5)
        for sample in samples:
            self.assertIn("\n".join(lines(sample)), program)

    def test_the_program_runs(self):
        subprocess.run([BIN / "farside", "run", "-n", "3", "--", BIN / "gas_guide"], check=True, timeout=100)


if __name__ == "__main__":
    unittest.main()
