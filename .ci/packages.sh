#!/bin/sh
# Build sdist and wheel of each package and an SBOM into a folder, and check them. `make packages` runs it.
#
# Usage: packages.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
target=$1
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for source in . packages/*; do
    python -m build --no-isolation --outdir "$new" "$source" >"$new/log" 2>&1 || { cat "$new/log" >&2; exit 1; }
done
rm "$new/log"
twine --no-color check --strict "$new"/*
check-wheel-contents "$new"/*.whl

# What the wheel of the core installs with all extras.
python -m venv --without-pip "$new/all"
export PIP_QUIET=1 PIP_NO_COMPILE=1 PIP_PYTHON="$new/all/bin/python"
python -m pip install --require-hashes --only-binary :all: --requirement .ci/lock/all.txt
python -m pip install --no-deps "$new"/*.whl
unset PIP_PYTHON
cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
    --output-file "$new/kubectl-sky.cdx.json" "$new/all/bin/python"
rm -rf "$new/all"

mkdir -p "$target"
for file in "$new"/*; do
    mv "$file" "$target"
    echo "$target/$(basename "$file")"
done
