#!/bin/bash
# Install in each way on an empty Debian that has only Python and kubectl, run and look at a task as
# an ordinary user, and print a table of seconds. Needs root, debootstrap and a network.
#
# Usage: fresh.sh [WAY…], of: pip pipx uv source krew (default: all)
#
# KUBECONFIG  a cluster to use (default: the practice cluster)
# SUITE       release of Debian (default: that of this machine)
# DIST        folder with the output of `make dist`, for krew (default: dist)
# KREW        the program krew (default: the one on PATH, or built as for the tests)
#
# Packages come from where apt and pip of this machine get them. Mounts are made in a namespace of
# their own and end with it.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "error: $*" >&2
    exit 2
}

main() {
    local ways=("$@") way
    [ $# -gt 0 ] || ways=(pip pipx uv source krew)
    for way in "${ways[@]}"; do
        declare -F "way_$way" >/dev/null || fail "way \"$way\" not found"
    done
    [ "$(id -u)" = 0 ] || fail 'fresh.sh needs root'
    type debootstrap unshare kubectl >/dev/null || fail 'debootstrap, unshare and kubectl are needed'
    work=$(mktemp -d)
    chmod 755 "$work"
    trap 'rm -rf --one-file-system "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    make_base "$work/base" "${ways[@]}"
    printf '| way | get its tool | install | main job | MB |\n|---|---|---|---|---|\n'
    for way in "${ways[@]}"; do
        unshare --mount --propagation private --pid --fork --kill-child \
            "$0" --inside "$work" "$way"
        rm -rf --one-file-system "${work:?}/root"
    done
}

# Debian with Python and kubectl, a user, a checkout, a wheel, and the plugin's archive for krew.
make_base() {
    local base=$1 suite mirror
    suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
    shift
    echo "making an empty Debian $suite: about a minute" >&2
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv \
        "$suite" "$base" ${mirror:+"$mirror"} >"$work/log" 2>&1 || { tail "$work/log" >&2; exit 1; }
    cp -L /etc/resolv.conf /etc/hosts "$base/etc"
    cp -L /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs"
    if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$base/etc"; fi
    cp -L "$(command -v kubectl)" "$base/usr/local/bin/kubectl"
    chroot "$base" useradd --create-home --shell /bin/bash user
    local home="$base/home/user"
    mkdir "$home/kubectl-sky" "$home/wheel"
    git archive HEAD | tar -x -C "$home/kubectl-sky"
    python3 -m venv "$work/build"
    "$work/build/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$home/wheel" "$home/kubectl-sky"
    case " $* " in *' krew '*)
        cp "${KREW:-$(find_krew)}" "$base/usr/local/bin/kubectl-krew"
        mkdir "$home/dist"
        cp "${DIST:-dist}"/sky.yaml "${DIST:-dist}"/kubectl-sky-*.tar.gz "$home/dist" || fail 'run "make dist" first'
        ;;
    esac
    if [ -n "${KUBECONFIG:-}" ]; then install -m 600 "$KUBECONFIG" "$home/kubeconfig"; fi
    chroot "$base" chown -R user: /home/user
}

find_krew() {
    command -v kubectl-krew || .venv/bin/python - <<'END'
from tests.cluster import golang
from tests.e2e.test_krew import COMMANDS, MODULE

print(golang.build("krew", MODULE, f"{COMMANDS}krew"))
END
}

# In a mount and PID namespace: install in one way, and run the main job.
inside() {
    local root="$1/root"
    cp -a "$1/base" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmp "$root/tmp"
    {
        declare -f "way_$2" run_main_job now since
        echo "way=$2"
        declare -f steps
        echo steps
    } >"$root/home/user/steps"
    chroot --userspec=user "$root" /usr/bin/env -i "${passed[@]}" HOME=/home/user USER=user \
        LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin ${KUBECONFIG:+KUBECONFIG=/home/user/kubeconfig} \
        bash -euo pipefail -c 'cd && source steps'
}

# What pip, uv and programs like them need to know of the network.
mapfile -t passed < <(env | grep -E '^(PIP_|UV_|SSL_CERT_|REQUESTS_CA_|CURL_CA_|(https?|no|all)_proxy=|(HTTPS?|NO|ALL)_PROXY=)' | grep -v '^PIP_FIND_LINKS=')

# The rest runs in the empty Debian, as a user.

now() {
    echo "${EPOCHREALTIME/[.,]/}"
}

since() {
    echo "$((($(now) - $1) / 100000))" | sed 's/.$/.&/; s/^\./0./'
}

steps() {
    local before start tool install job after
    start=$(now)
    "way_$way" tool >log 2>&1 || { cat log >&2; exit 1; }
    tool=$(since "$start")
    before=$(du -sm --exclude=.cache ~ | cut -f1)
    start=$(now)
    "way_$way" install >log 2>&1 || { cat log >&2; exit 1; }
    install=$(since "$start")
    after=$(du -sm --exclude=.cache ~ | cut -f1)
    export PATH="$HOME/installed/bin:$HOME/.local/bin:$HOME/.krew/bin:$PATH"
    start=$(now)
    run_main_job >log 2>&1 || { cat log >&2; exit 1; }
    job=$(since "$start")
    printf '| %s | %s | %s | %s | %s |\n' "$way" "$tool" "$install" "$job" "$((after - before))"
}

# Start a cluster, run an example, look at it, and remove all of it.
run_main_job() {
    local settings=''
    cd ~/kubectl-sky
    if [ -z "${KUBECONFIG:-}" ]; then
        settings=$(kubectl sky local up)
        eval "$settings"
    fi
    kubectl sky submit examples/01-hello.yaml | grep '^Hello from Python' || return
    kubectl sky list | grep -E 'hello +completed +1/1' || return
    kubectl sky logs hello | grep '^Hello from Python' || return
    kubectl sky stop hello || return
    if [ -n "$settings" ]; then kubectl sky local down --purge; fi
}

way_pip() {
    [ "$1" = install ] || return 0
    python3 -m venv ~/installed
    ~/installed/bin/pip install "$(echo ~/wheel/*.whl)[practice]"
}

way_pipx() {
    case $1 in
        tool) python3 -m venv ~/pipx && ~/pipx/bin/pip install pipx ;;
        install) ~/pipx/bin/pipx install "$(echo ~/wheel/*.whl)[practice]" ;;
    esac
}

way_uv() {
    case $1 in
        tool) python3 -m venv ~/uv && ~/uv/bin/pip install uv ;;
        install) ~/uv/bin/uv tool install "kubectl-sky[practice] @ file://$(echo ~/wheel/*.whl)" ;;
    esac
}

way_source() {
    [ "$1" = install ] || return 0
    cd ~/kubectl-sky
    python3 -m venv ~/installed && ~/installed/bin/pip install '.[practice,server,ui]'
}

way_krew() {
    [ "$1" = install ] || return 0
    kubectl krew install --manifest="$HOME/dist/sky.yaml" --archive="$(echo ~/dist/*.tar.gz)"
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
else
    main "$@"
fi
