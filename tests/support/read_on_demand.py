"""Reads the files that it is told to on its standard input, whole, and prints their digests."""
import hashlib
import sys

for line in sys.stdin:
    with open(line.rstrip("\n"), "rb") as file:
        print(hashlib.sha256(file.read()).hexdigest(), flush=True)
