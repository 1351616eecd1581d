"""`farside far --profile` and `--hints`: what a program does with each of its arrays (uses.cc) is found, and the next run
goes by it."""
import json
import os
import subprocess
import unittest

import pool

USES = os.environ["FARSIDE_USES"]
LOCAL = "12M"  # of 60

# By the function that allocated it, or the name of the static array.
USED = {"take_table()": "read_mostly", "take_counters()": "updated", "take_input()": "sequential", "take_scratch()": "none",
        "uses: static_table": "read_mostly"}


def by_place(profile):
    """What a profile says of each array."""
    return {one["function"] or one["name"]: one for one in json.loads(profile.read_text())["allocations"]}


class Profiles(pool.OnASharedPool):
    def setUp(self):
        super().setUp()
        self.profile = self.directory / "profile"
        self.plainly = subprocess.run([USES], capture_output=True, text=True, check=True).stdout

    def far(self, *arguments, command=(USES,)):
        done = self.pool.run("far", "--local", LOCAL, "--trust-nodes", "--stats", *arguments, "--", *command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_each_array_is_known_by_its_use(self):
        done = self.far("--profile", self.profile)
        self.assertEqual(done.stdout, self.plainly)
        self.assertEqual({place: one["hint"] for place, one in by_place(self.profile).items()}, USED)

    def test_the_next_run_goes_by_it(self):
        self.far("--profile", self.profile)
        again = self.directory / "again"
        hinted = self.far("--hints", self.profile, "--profile", again)
        self.assertEqual(hinted.stdout, self.plainly)
        self.assertIn("hints          for 4 allocations; of 5 names nothing had 0\n", hinted.stderr)
        before, after = (by_place(profile)["take_counters()"]["pages_stored"] for profile in (self.profile, again))
        self.assertLess(after, before / 2, "what is updated leaves as often as without hints")
        self.assertEqual({place: one["hint"] for place, one in by_place(again).items()}, USED)

    def test_a_child_goes_on_with_its_parents_names(self):
        done = self.far("--profile", self.profile, command=(USES, "forks"))
        self.assertEqual(done.stdout, self.plainly)
        self.assertEqual({place: one["hint"] for place, one in by_place(self.profile).items()}, USED)
        self.far("--hints", self.profile, command=(USES, "forks"))

    def test_names_that_nothing_has_are_counted(self):
        self.profile.write_text('{"allocations": [{"name": "uses: static_table", "hint": "read_mostly"}, {"name": "x: y", "hint": "read_mostly"}]}')
        done = self.far("--hints", self.profile)
        self.assertEqual(done.stdout, self.plainly)
        self.assertIn("hints          for 1 allocations; of 2 names nothing had 1\n", done.stderr)

    def test_programs_without_symbols_have_names_too(self):
        stripped = self.directory / "stripped"
        subprocess.run(["/usr/bin/strip", "-o", stripped, USES], check=True)
        self.far("--profile", self.profile, command=(stripped,))
        hints = sorted(one["hint"] for one in json.loads(self.profile.read_text())["allocations"])
        self.assertEqual(hints, sorted(USED.values()))


class BadFiles(pool.OnASharedPool):
    def refused(self, *arguments):
        made = self.directory / "made"
        done = self.pool.run("far", "--local", LOCAL, *arguments, "--", "/usr/bin/touch", made)
        self.assertIn(done.returncode, [2, 125])
        self.assertFalse(made.exists(), "the program was started")
        return done.stderr

    def test_are_told_before_the_program_starts(self):
        hints = self.directory / "hints"
        hints.write_text('{"allocations": [{"name": "a: b", "hint": "often"}]}')
        self.assertIn('allocations[0].hint, of "a: b": there is no hint "often"', self.refused("--hints", hints))
        hints.write_text('{"allocations": [\n{"name": }\n]}')
        self.assertIn("line 2", self.refused("--hints", hints))
        self.assertIn("No such file", self.refused("--hints", self.directory / "none"))
        self.assertIn("Is a directory", self.refused("--profile", self.directory))


if __name__ == "__main__":
    unittest.main()
