# Finds the nodes by DNS, where they cannot run barrier.py. Part of nodes.sh.

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
      await "node-$rank (no address)"
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

# Prints the address of a host name; nothing for several, as one is that of a pod that is being deleted.
resolve() { # NAME
  addresses_of "$1" | {
    address=
    while read -r line _; do
      [ "${address:-$line}" = "$line" ] || exit 0
      address=$line
    done
    echo "$address"
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
