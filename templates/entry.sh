#!/bin/sh
# Starts one node of a task: waits until every rank is there, then runs setup and run.
# Needs only sh; uses bash for the user's scripts and python3 for the barrier where the image has them.
set -u
dir=/etc/kubectl-sky
child=

say() { echo "kubectl-sky: $*" >&2; }

fail() { # CODE MESSAGE: the message is what `kubectl sky status` shows as the reason
  say "$2"
  echo "$2" > /dev/termination-log 2> /dev/null
  exit "$1"
}

nap() { sleep 0.3 2> /dev/null || sleep 1; }

# Prints the address of a host name, or nothing.
resolve() {
  if command -v getent > /dev/null; then
    getent hosts "$1" | { read -r address _ && echo "$address"; }
  elif command -v nslookup > /dev/null; then
    # busybox leaves the search list alone where a name has dots; its first entry is our namespace
    domain=$(sed -n 's/^search  *\([^ ]*\).*/\1/p' /etc/resolv.conf)
    nslookup "$1${domain:+.$domain}" 2> /dev/null | sed -n '/^Name:/,$s/^Address[^:]*: *\([^ ]*\).*/\1/p' | sed -n 1p
  else
    fail 1 "the image has none of python3, getent and nslookup, so the nodes cannot find each other"
  fi
}

# Prints all addresses in rank order, once every rank has one.
meet_by_name() {
  rank=0
  addresses=
  deadline=$(($(date +%s) + ${KUBECTL_SKY_BARRIER_TIMEOUT:-1800}))
  while [ "$rank" -lt "$NUM_NODES" ]; do
    if [ "$rank" -eq "$NODE_RANK" ]; then address=$POD_IP; else address=$(resolve "node-$rank.$1"); fi
    if [ -n "$address" ]; then
      addresses="$addresses$address
"
      rank=$((rank + 1))
    elif [ "$(date +%s)" -ge "$deadline" ]; then
      fail 1 "gave up waiting for the other nodes: rank $rank has no address"
    else
      nap
    fi
  done
  printf %s "$addresses"
}

# A node that ends at once would vanish from DNS before slower nodes have seen it.
linger() {
  while [ "$(date +%s)" -lt "$1" ]; do nap; done
}

# Runs one of the user's scripts and passes SIGTERM on to it; its exit code is ours.
run_phase() {
  "$shell" "$dir/$1.sh" &
  child=$!
  wait "$child"
  code=$?
  while [ "$code" -gt 128 ] && kill -0 "$child" 2> /dev/null; do
    wait "$child"
    code=$?
  done
  child=
  return "$code"
}

trap '[ -z "$child" ] || kill -TERM "$child" 2> /dev/null' TERM INT

shell=$(command -v bash || command -v sh)
stay_until=0
if [ "$NUM_NODES" -eq 1 ]; then
  SKYPILOT_NODE_IPS=$POD_IP
elif command -v python3 > /dev/null; then
  SKYPILOT_NODE_IPS=$(python3 "$dir/barrier.py" "$KUBECTL_SKY_SERVICE") || exit 1
else
  SKYPILOT_NODE_IPS=$(meet_by_name "$KUBECTL_SKY_SERVICE") || exit 1
  stay_until=$(($(date +%s) + 10 + NUM_NODES / 20))
fi
SKYPILOT_NODE_IPS=$(printf '%s' "$SKYPILOT_NODE_IPS")
export SKYPILOT_NODE_IPS
export MASTER_ADDR="${MASTER_ADDR-${SKYPILOT_NODE_IPS%%
*}}"
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"

if [ -f "$dir/setup.sh" ]; then
  export SKYPILOT_SETUP_NODE_IPS="$SKYPILOT_NODE_IPS" SKYPILOT_SETUP_NODE_RANK="$NODE_RANK"
  export SKYPILOT_SETUP_NUM_GPUS_PER_NODE="$SKYPILOT_NUM_GPUS_PER_NODE"
  run_phase setup || fail "$?" "setup failed with exit code $?"
  unset SKYPILOT_SETUP_NODE_IPS SKYPILOT_SETUP_NODE_RANK SKYPILOT_SETUP_NUM_GPUS_PER_NODE
fi
run_phase run
code=$?
linger "$stay_until"
exit "$code"
