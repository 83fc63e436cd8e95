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
lock all pyproject.toml --all-extras  # the SBOM
same="--constraints .ci/lock/all.txt"
# shellcheck disable=SC2086 # two words
{
    lock package pyproject.toml $same  # the Action
    lock archive pyproject.toml $same --extra practice --group archive
    lock image pyproject.toml $same --extra server --extra controllers
    lock packages --group packages $same
}
