# Sets SKYPILOT_NODE_IPS to the addresses of all nodes in rank order. Part of entry.sh.

timeout=${KUBECTL_SKY_BARRIER_TIMEOUT:-1800}
case $timeout in *[!0-9]*) fail 2 "KUBECTL_SKY_BARRIER_TIMEOUT is not a whole number of seconds: $timeout" ;; esac

host_of() { echo "${KUBECTL_SKY_HOSTS-node-}$1.$KUBECTL_SKY_SERVICE"; } # RANK; mpi.sh overrides it

meet() {
  [ -z "${KUBECTL_SKY_MET-}" ] || return 0 # barrier.py has set the addresses
  if [ -n "$mpi" ]; then
    meet_by_ssh
  elif command -v python3 > /dev/null; then
    exec python3 -I "$dir/barrier.py" "$KUBECTL_SKY_SERVICE"
  else
    meet_by_dns
    # Names of finished nodes leave DNS: stay until slower nodes have resolved them.
    stay_until=$(($(date +%s) + 10 + NUM_NODES / 20))
  fi
}

meet_by_dns() {
  command -v getent > /dev/null || command -v nslookup > /dev/null ||
    fail 1 "the nodes cannot find each other: the image has none of python3, getent and nslookup"
  rank=0
  SKYPILOT_NODE_IPS=
  deadline=$(($(date +%s) + timeout))
  while [ "$rank" -lt "$NUM_NODES" ]; do
    if [ "$rank" -eq "$NODE_RANK" ]; then address=$POD_IP; else address=$(resolve "$(host_of "$rank")"); fi
    if [ -n "$address" ]; then
      SKYPILOT_NODE_IPS="$SKYPILOT_NODE_IPS${SKYPILOT_NODE_IPS:+
}$address"
      rank=$((rank + 1))
    elif [ "$(date +%s)" -ge "$deadline" ]; then
      fail_without_nodes
    else
      nap
    fi
  done
}

# Lists the ranks from $rank on without an address.
fail_without_nodes() {
  missing=
  while [ "$rank" -lt "$NUM_NODES" ]; do
    [ "$rank" -eq "$NODE_RANK" ] || [ -n "$(resolve "$(host_of "$rank")")" ] ||
      missing="$missing${missing:+, }$rank"
    rank=$((rank + 1))
  done
  fail 1 "gave up waiting for the other nodes after $timeout seconds: no address for rank ${missing:-unknown}"
}

# Prints the address of a host name. Prints nothing for several addresses, because one of them belongs
# to a pod that is being deleted or to another user, or for other text, because the user's scripts get it.
resolve() { # NAME
  addresses_of "$1" | {
    address=
    while read -r line _; do
      [ "${address:-$line}" = "$line" ] || exit 0
      address=$line
    done
    ! is_address "$address" || echo "$address"
  }
}

addresses_of() { # NAME
  if command -v getent > /dev/null; then
    getent hosts "$1"
  elif command -v nslookup > /dev/null; then
    # busybox ignores the search list for names with dots; its first entry is the task's namespace
    domain=$(sed -n 's/^search  *\([^ ]*\).*/\1/p' /etc/resolv.conf)
    nslookup "$1${domain:+.$domain}" 2> /dev/null | sed -n '/^Name:/,$s/^Address[^:]*: *\([^ ]*\).*/\1/p'
  fi
}

is_address() { # TEXT
  case $1 in
    *[!0-9a-fA-F:.]* | *.*.*.*.* | .* | *. | *..*) return 1 ;;
    *:*:* | *[!.]*.*[!.]*.*[!.]*.*[!.]*) ;;
    *) return 1 ;;
  esac
  case $1 in *:*) ;; *[a-fA-F]* | *[0-9][0-9][0-9][0-9]*) return 1 ;; esac
}
