#!/bin/sh
# Run a command in a temporary virtual environment with the project, its packages and those of
# .ci/lock/LOCK.txt: a release contains nothing that a developer has installed, and .venv stays as
# it is. It costs about 20 seconds.
#
# Usage: isolated.sh PYTHON LOCK COMMAND…
set -eu
cd "$(dirname "$0")/.."
python=${1:?Python 3.11 or newer is required} lock=.ci/lock/$2.txt
shift 2

venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$python" -m venv "$venv"
export PIP_QUIET=1 PIP_NO_COMPILE=1
"$venv/bin/python" -m pip install --require-hashes --only-binary :all: --requirement "$lock"
"$venv/bin/python" -m pip install --no-deps --no-build-isolation ./packages/* .
PATH="$venv/bin:$PATH" "$@"
