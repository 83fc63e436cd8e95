"""Install the checkout into a virtual environment, and print what is downloaded and when.

Usage: install.py PYTHON MEGABYTES REQUIREMENT…, what pip's install takes after --editable
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

STARTED = float(os.environ.get("DEMO_STARTED") or time.time())
BYTES = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
LARGE = 1e6  # bytes from which a package has its own line
_DOWNLOAD = re.compile(r"Downloading (\S+?)-(\d\S*?)-\S+\.whl \(([\d.]+) (bytes|[kMG]B)\)")


def main(python: str, megabytes: str, *requirements: str) -> int:
    """Run pip; return its exit code."""
    say(f"download the packages with pip: about {megabytes} MB, unless they are in its cache")
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    pip = subprocess.Popen(
        [*command, "--progress-bar=off", "--editable", *requirements],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert pip.stdout
    lines = []
    for line in pip.stdout:
        lines.append(line)
        for text in progress(lines):
            say(text)
    if pip.wait():
        sys.stderr.writelines(lines[-20:])
    else:
        say("installed into .venv")
    return pip.returncode


def progress(lines: list[str]) -> Iterator[str]:
    """Yield what the last of pip's lines means to a user; most lines mean nothing."""
    downloads = [match for line in lines if (match := _DOWNLOAD.search(line))]
    if lines[-1].startswith("Installing collected packages:"):
        total = sum(size(match) for match in downloads) / 1e6
        packages = lines[-1].count(",") + 1
        yield f"unpack {packages} packages, {total:.1f} MB of which were downloaded"
    elif (match := _DOWNLOAD.search(lines[-1])) and size(match) >= LARGE:
        yield f"  {match[1]} {match[2]}, {match[3]} {match[4]}"


def size(download: re.Match[str]) -> float:
    """Return the size of a download in bytes."""
    return float(download[3]) * BYTES[download[4]]


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    print(f"{int(time.time() - STARTED):3} s  {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
