"""Waiting in tests: for as long as only a failing test waits."""
import time

TIMEOUT_S = 60


def wait_for(condition, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.01)
