#!/bin/sh
# Write .ci/lock: the versions and hashes of the packages that a release and the Action install, for
# all platforms and Pythons at once, with uv.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

lock() {
    name=$1
    shift
    uv pip compile --quiet --universal --python-version 3.11 --upgrade --only-binary :all: --generate-hashes \
        --custom-compile-command '.ci/lock.sh' --no-annotate --output-file ".ci/lock/$name.txt" \
        "$@"
}
# An extra that is a package of this repository is left out: its pyproject.toml is read instead.
lock all pyproject.toml packages/*/pyproject.toml --extra controllers --extra server --extra ui  # the SBOM
same="--constraints .ci/lock/all.txt"
# shellcheck disable=SC2086 # two words
{
    lock package pyproject.toml $same  # the Action
    lock archive pyproject.toml packages/practice/pyproject.toml $same --group archive
    lock image pyproject.toml $same --extra server --extra controllers
    lock packages --group packages $same
}
