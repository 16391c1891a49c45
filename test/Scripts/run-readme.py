"""Runs the commands of the README, and prints the output of each.

    run-readme.py README.md BUILD EMPTY-FOLDER

A command is a line of a code block that starts with build/bin; it runs where
`build` and `examples` are what they are in the sources.
"""

import pathlib
import re
import subprocess
import sys

readme, build, folder = map(pathlib.Path, sys.argv[1:])
folder.mkdir(parents=True)
(folder / "build").symlink_to(build)
(folder / "examples").symlink_to(readme.parent / "examples")
commands = re.findall(r"^build/bin/.*$", readme.read_text(), re.M)
if not commands:
    sys.exit("run-readme: no command in the README")
for command in commands:
    print("$", command, flush=True)
    subprocess.run(command, shell=True, cwd=folder, check=True)
