#!/bin/sh
# ~/sky_templates/ray/start_cluster: starts Ray on all nodes of a task, the head on rank 0. Its variables are SkyPilot's:
# RAY_HEAD_PORT (6379), RAY_DASHBOARD_PORT (8265), RAY_DASHBOARD_HOST (127.0.0.1), RAY_DASHBOARD_AGENT_LISTEN_PORT (52366),
# RAY_HEAD_IP_ADDRESS, RAY_CMD (ray; such as "uv run ray").
set -eu
port=${RAY_HEAD_PORT:-6379} rank=${SKYPILOT_NODE_RANK:-0} nodes=${SKYPILOT_NUM_NODES:-1}
deadline=$(($(date +%s) + ${KUBECTL_SKY_BARRIER_TIMEOUT:-1800}))
head=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)

run_ray() { eval "${RAY_CMD:-ray} \"\$@\""; }

fail() { # MESSAGE
  echo "kubectl-sky: $1" >&2
  echo "$1" > /dev/termination-log 2> /dev/null
  exit 1
}

count_nodes() { # of "ray status", which has a line "NUMBER TYPE" for each type of the nodes that are up
  run_ray status --address="127.0.0.1:$port" 2> /dev/null | {
    count=0
    while read -r number type; do
      case $number in
        Pending:) break ;;
        "" | *[!0-9]*) ;;
        *) [ -z "$type" ] || count=$((count + number)) ;;
      esac
    done
    echo "$count"
  }
}

install_ray() {
  echo "kubectl-sky: installing Ray, because setup has not"
  if command -v uv > /dev/null; then
    uv pip install 'ray[default]' || UV_BREAK_SYSTEM_PACKAGES=true uv pip install --system 'ray[default]'
  else
    PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet 'ray[default]'
  fi
}

[ -n "${RAY_CMD:-}" ] || command -v ray > /dev/null || install_ray || true
run_ray --version || fail "Ray is not installed: install it in setup, such as with: pip install 'ray[default]'"
if [ -f "${0%/*}/.head" ] && cat /proc/[0-9]*/comm 2> /dev/null | grep -qx raylet; then
  echo "kubectl-sky: Ray is already running"
  exit 0
fi
set -- --disable-usage-stats --dashboard-agent-listen-port="${RAY_DASHBOARD_AGENT_LISTEN_PORT:-52366}"
[ "${SKYPILOT_NUM_GPUS_PER_NODE:-0}" -eq 0 ] || set -- "$@" --num-gpus="$SKYPILOT_NUM_GPUS_PER_NODE"
if [ "$rank" -ne 0 ]; then
  until run_ray health-check --address="$head:$port" > /dev/null 2>&1; do
    [ "$(date +%s)" -lt "$deadline" ] || fail "the Ray head $head:$port is not ready"
    sleep 1
  done
  run_ray start --address="$head:$port" "$@"
  echo "$head $port" > "${0%/*}/.head"
  exit 0
fi
[ -z "${RAY_HEAD_IP_ADDRESS:-}" ] || set -- "$@" --node-ip-address="$RAY_HEAD_IP_ADDRESS"
run_ray start --head --port="$port" --dashboard-port="${RAY_DASHBOARD_PORT:-8265}" \
  --dashboard-host="${RAY_DASHBOARD_HOST:-127.0.0.1}" "$@"
echo "$head $port" > "${0%/*}/.head"
until joined=$(count_nodes) && [ "$joined" -ge "$nodes" ]; do
  [ "$(date +%s)" -lt "$deadline" ] || fail "only $joined of $nodes nodes have joined the Ray cluster"
  echo "kubectl-sky: $joined of $nodes nodes have joined the Ray cluster"
  sleep 2
done
echo "kubectl-sky: the Ray cluster is up: $nodes of $nodes nodes"
