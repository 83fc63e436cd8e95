#!/bin/sh
# ~/sky_templates/ray/stop_cluster: stops Ray on this node. Its variables are SkyPilot's: RAY_HEAD_PORT, RAY_CMD.
set -eu
run_ray() { eval "${RAY_CMD:-ray} \"\$@\""; }

rm -f "${0%/*}/.head"
if ! cat /proc/[0-9]*/comm 2> /dev/null | grep -qx raylet; then
  echo "kubectl-sky: no Ray cluster is running on port ${RAY_HEAD_PORT:-6379}"
  exit 0
fi
run_ray stop
