#!/bin/sh
# What `make demo` shows: a task of three nodes on a practice cluster of its own.
# Neither a cluster nor a setting of the user's is touched, and nothing stays.
#
# Usage: demo.sh BIN, the folder of an environment's programs
set -eu
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
task=examples/09-in-turn.yaml
# `make demo` sets when it started to install.
begun=${DEMO_STARTED:-$(date +%s)}

KUBECTL_SKY_STATE_HOME=$(mktemp -d)
KUBECTL_SKY_CONFIG_HOME=$KUBECTL_SKY_STATE_HOME/config
KUBECTL_SKY_CACHE_HOME=$KUBECTL_SKY_STATE_HOME/cache
export KUBECTL_SKY_STATE_HOME KUBECTL_SKY_CONFIG_HOME KUBECTL_SKY_CACHE_HOME
unset KUBECONFIG

clean_up() {
    trap '' INT TERM HUP
    "$bin/kubectl-sky" local down --purge >/dev/null 2>&1 || true
    rm -rf "$KUBECTL_SKY_STATE_HOME"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ -t 1 ]; then
    bold='\033[1m' plain='\033[0m'
else
    bold='' plain=''
fi

elapsed() {
    echo $(($(date +%s) - begun))
}

say() {
    printf "\n$bold# %s$plain (%s s)\n" "$*" "$(elapsed)"
}

sky() {
    printf '$ kubectl sky %s\n' "$*"
    "$bin/kubectl-sky" "$@"
}

say 'A cluster of its own: no Docker, no root, its pods are processes of yours'
# shellcheck disable=SC2016
printf '$ eval "$(kubectl sky local up)"\n'
settings=$("$bin/kubectl-sky" local up)
eval "$settings"

say 'Is the task right? What would be sent?'
sky validate $task
sky render $task --output-dir "$KUBECTL_SKY_STATE_HOME/manifests"

say 'Run it: three nodes find each other and take turns'
sky volumes create turns 1Gi
sky submit $task

say 'Look at it'
sky logs in-turn
sky status in-turn
sky list
sky volumes list

say 'Remove it, and the cluster'
sky stop in-turn
sky local down --purge

printf "\n$bold# %s$plain\n" "That took $(elapsed) seconds. A cluster to keep: eval \"\$($bin/kubectl-sky local up)\""
