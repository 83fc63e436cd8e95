#!/bin/sh
# session.sh FOLDER SHELL: runs what comes by ssh as the task's own programs run: with the variables
# of the task, in its folder, and with what setup added to ~/.bashrc.
[ ! -f "$1/environment" ] || . "$1/environment"
cd "${PWD:-/}" || exit 1
if [ -s "$1/nodes" ]; then
  SKYPILOT_NODE_IPS=$(cat "$1/nodes") # rank 0 may have moved since
  MASTER_ADDR="${MASTER_ADDR-${SKYPILOT_NODE_IPS%%
*}}"
  export SKYPILOT_NODE_IPS MASTER_ADDR PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"
fi
if [ -n "${SSH_ORIGINAL_COMMAND-}" ]; then exec "$2" -c "$SSH_ORIGINAL_COMMAND"; fi
exec "$2"
