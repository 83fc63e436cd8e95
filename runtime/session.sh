#!/bin/sh
# session.sh FOLDER SHELL: runs a command from ssh like the task's own programs: with the task's variables, in its working
# directory, and with ~/.bashrc.
[ ! -f "$1/environment" ] || . "$1/environment"
cd "${PWD:-/}" || exit 1
if [ -s "$1/nodes" ]; then
  SKYPILOT_NODE_IPS=$(cat "$1/nodes") # rank 0 may have restarted with another address
  MASTER_ADDR="${MASTER_ADDR-${SKYPILOT_NODE_IPS%%
*}}"
  export SKYPILOT_NODE_IPS MASTER_ADDR PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"
fi
if [ -n "${SSH_ORIGINAL_COMMAND-}" ]; then exec "$2" -c "$SSH_ORIGINAL_COMMAND"; fi
exec "$2"
