#!/bin/sh
# Write .ci/lock: the versions and hashes of the packages that a release and the Action install, for
# all platforms and Pythons at once, with uv.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

# Usage: lock NAME PROJECT... [-- OPTION...]
lock() {
    name=$1
    shift
    projects=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        projects="$projects $1"
        shift
    done
    [ $# -eq 0 ] || shift
    # shellcheck disable=SC2086 # words
    python .ci/requirements.py $projects | uv pip compile --quiet --universal --python-version 3.11 --upgrade \
        --only-binary :all: --generate-hashes --custom-compile-command '.ci/lock.sh' --no-annotate \
        --output-file ".ci/lock/$name.txt" - "$@"
}
core=pyproject.toml
practice=packages/practice/pyproject.toml
server=packages/server/pyproject.toml
ui=packages/ui/pyproject.toml
all=.ci/lock/all.txt

lock all $core $practice $server $ui # the SBOM
lock package $core -- --constraints $all # the Action
lock archive $core $practice $ui -- --constraints $all --group $core:archive
lock image $core $server -- --constraints $all
lock packages -- --constraints $all --group $core:packages
