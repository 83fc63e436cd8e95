#!/bin/sh
# Run a command in a temporary virtual environment: a release contains nothing that a developer has
# installed, and .venv stays as it is. It costs about 20 seconds.
#
# Usage: isolated.sh PYTHON 'PIP ARGUMENTS' COMMAND…
set -euf  # `.[practice]` is not a pattern of files
cd "$(dirname "$0")/.."
python=${1:?Python 3.11 or newer is required} packages=$2
shift 2

venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
# shellcheck disable=SC2086 # several arguments
"$venv/bin/python" -m pip install --quiet $packages
PATH="$venv/bin:$PATH" "$@"
