# Sets SKYPILOT_NODE_IPS to the addresses of all nodes in rank order. Part of entry.sh.

timeout=${KUBECTL_SKY_BARRIER_TIMEOUT:-1800}
case $timeout in *[!0-9]*) fail 2 "KUBECTL_SKY_BARRIER_TIMEOUT is not a whole number of seconds: $timeout" ;; esac

host_of() { echo "${KUBECTL_SKY_HOSTS-node-}$1.$KUBECTL_SKY_SERVICE"; } # RANK; mpi.sh overrides it

meet() {
  [ -z "${KUBECTL_SKY_MET-}" ] || return 0 # barrier.py has set the addresses
  await "the other nodes"
  if [ -n "$mpi" ]; then
    meet_by_ssh
  elif command -v python3 > /dev/null; then
    exec python3 -I "$dir/barrier.py" "$KUBECTL_SKY_SERVICE"
  else
    . "$dir/dns.sh"
    meet_by_dns
    # Names of finished nodes leave DNS: stay until slower nodes have resolved them.
    stay_until=$(($(date +%s) + 20 + NUM_NODES / 10))
  fi
}
