"""Runs a GoogleTest program under the preload library: hooked_test.py SLOTS PROGRAM [ARGUMENT...]"""
import os
import subprocess
import sys

import workbench

slots, *command = sys.argv[1:]
with workbench.bench() as directory, workbench.stand_in_node(directory / "socket", slots=slots):
    files = directory / "files"
    environment = workbench.preloaded(directory / "socket", files) | {"FARSIDE_FILES": str(files)}
    sys.exit(subprocess.run(command, env=os.environ | environment, check=False).returncode)
