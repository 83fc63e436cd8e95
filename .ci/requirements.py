"""Print what projects require, but not packages of this repository."""

import sys
import tomllib
from pathlib import Path

for path in sys.argv[1:]:
    project = tomllib.loads(Path(path).read_text())["project"]
    for requirement in project["dependencies"]:
        if not requirement.startswith("kubectl-sky"):
            sys.stdout.write(f"{requirement}\n")
