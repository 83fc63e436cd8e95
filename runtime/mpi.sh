# Connects the nodes of an MPIJob by ssh, with the keys that its operator created for it.
# Rank 0 sends all addresses to the other nodes, waits for their setup, and runs the task. The other
# nodes run sshd for the programs that mpirun starts there. Part of entry.sh; uses nodes.sh.

mpi=$KUBECTL_SKY_FILES/mpi
port=61138 # above the ephemeral ports; an sshd of the image may use 22
lost_after=120 # seconds

host_of() { # RANK: the host name that the operator sets
  if [ "$1" -eq 0 ]; then
    echo "$KUBECTL_SKY_SERVICE-launcher.$KUBECTL_SKY_SERVICE"
  else
    echo "$KUBECTL_SKY_SERVICE-worker-$(($1 - 1)).$KUBECTL_SKY_SERVICE"
  fi
}

program() { # NAME: prints its path; sshd may be outside of PATH and requires an absolute path
  PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" ||
    fail 1 "the image has no $1: an MPIJob needs openssh-server, openssh-client and an MPI"
}

# Creates keys that nobody else can read, and an ssh that connects to the nodes; other hosts keep their configuration.
prepare() {
  rm -rf "$mpi" # from an earlier container
  mkdir -p "$mpi/bin" && chmod 700 "$mpi" || fail 1 "cannot create $mpi"
  (umask 077 && cat "$KUBECTL_SKY_KEYS/id_rsa" > "$mpi/key") ||
    fail 1 "the keys of the MPIJob are not in $KUBECTL_SKY_KEYS"
  echo "kubectl-sky $(cat "$KUBECTL_SKY_KEYS/id_rsa.pub")" > "$mpi/known_hosts"
  configure
  client=$(program ssh) || exit 1
  printf '#!/bin/sh\nexec %s -F %s/config "$@"\n' "$client" "$mpi" > "$mpi/bin/ssh"
  chmod 755 "$mpi/bin/ssh"
  export PATH="$mpi/bin:$PATH"
}

# Writes the ssh configuration of the nodes, by name and, once known, by address.
configure() {
  {
    echo "Host $KUBECTL_SKY_SERVICE-* $(echo "${SKYPILOT_NODE_IPS-}" | tr '\n' ' ')"
    echo "  Port $port"
    echo "  IdentityFile $mpi/key"
    echo "  IdentitiesOnly yes"
    echo "  HostKeyAlias kubectl-sky"
    echo "  StrictHostKeyChecking yes"
    echo "  UserKnownHostsFile $mpi/known_hosts"
    echo "  BatchMode yes"
    echo "  ConnectTimeout 10"
    echo "  LogLevel ERROR"
    echo "Match all"
    echo "  Include ~/.ssh/config"
    echo "  Include /etc/ssh/ssh_config"
  } > "$mpi/config.new" && mv "$mpi/config.new" "$mpi/config"
}

# Starts sshd for the programs of the other nodes.
listen() {
  cat > "$mpi/sshd" << EOF
Port $port
HostKey $mpi/key
AuthorizedKeysFile $KUBECTL_SKY_KEYS/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AuthenticationMethods publickey
LoginGraceTime 60
MaxStartups 256:30:1024
PrintLastLog no
LogLevel ERROR
ForceCommand /bin/sh $dir/session.sh $mpi $shell
EOF
  daemon=$(program sshd) || exit 1
  [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd 2> /dev/null # fails without privileges
  "$daemon" -D -e -f "$mpi/sshd" &
  listener=$!
}

meet_by_ssh() {
  prepare
  deadline=$(($(date +%s) + timeout))
  if [ "$NODE_RANK" -eq 0 ]; then
    . "$dir/dns.sh"
    meet_by_dns
    echo "$SKYPILOT_NODE_IPS" > "$mpi/nodes"
    on_all reach
  else
    listen
    until [ -s "$mpi/nodes" ]; do
      kill -0 "$listener" 2> /dev/null || fail 1 "sshd exited: see the log"
      [ "$(date +%s)" -lt "$deadline" ] ||
        fail 1 "gave up waiting for the other nodes after $timeout seconds: rank 0 did not connect"
      nap
    done
    SKYPILOT_NODE_IPS=$(cat "$mpi/nodes")
  fi
  configure
  export -p > "$mpi/environment" # for programs that sshd starts
}

# Calls a function for each other node, 64 at a time. Fails with the problem that one of them reports.
on_all() { # FUNCTION
  rm -f "$mpi"/problem-*
  rank=1
  while [ "$rank" -lt "$NUM_NODES" ]; do
    "$1" "$rank" &
    [ $((rank % 64)) -ne 0 ] || wait
    rank=$((rank + 1))
  done
  wait
  for problem in "$mpi"/problem-*; do
    [ -f "$problem" ] || continue
    { read -r code && read -r message; } < "$problem"
    fail "$code" "$message"
  done
}

# Sends all addresses to a node and prints its state: empty, `ready`, or `failed CODE`.
ask() { # RANK
  "$mpi/bin/ssh" "$(host_of "$1")" "cat > $mpi/nodes.new && mv $mpi/nodes.new $mpi/nodes &&
    { [ ! -s $mpi/state ] || { cat $mpi/state && touch $mpi/reported; }; }" < "$mpi/nodes" 2> "$mpi/errors-$1"
}

reach() { # RANK
  until ask "$1" > /dev/null; do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      printf '1\ngave up waiting for the other nodes after %s seconds: rank %s is not reachable: %s\n' \
        "$timeout" "$1" "$(sed -n '$p' "$mpi/errors-$1")" > "$mpi/problem-$1"
      return
    fi
    nap
  done
}

until_ready() { # RANK: without a timeout for its setup
  last=$(date +%s)
  while :; do
    if state=$(ask "$1"); then last=$(date +%s); fi
    case $state in
      ready) return ;;
      failed*)
        code=${state#failed }
        case $code in "" | *[!0-9]*) code=1 ;; esac
        printf '%s\nsetup failed with exit code %s on rank %s\n' "$code" "$code" "$1" > "$mpi/problem-$1"
        sleep 3 # until that node has exited
        return
        ;;
    esac
    if [ $(($(date +%s) - last)) -ge "$lost_after" ]; then
      printf '1\nrank %s is lost: not reachable for %s seconds\n' "$1" "$lost_after" > "$mpi/problem-$1"
      return
    fi
    nap
  done
}

report_failed_setup() { # CODE
  [ "$NODE_RANK" -ne 0 ] && [ "$NUM_NODES" -gt 1 ] || return 0
  echo "failed $1" > "$mpi/state"
  deadline=$(($(date +%s) + 60))
  until [ -e "$mpi/reported" ] || [ "$(date +%s)" -ge "$deadline" ]; do nap; done
}

start_mpi() {
  variables_of_mpi
  [ "$NUM_NODES" -gt 1 ] || return 0
  if [ "$NODE_RANK" -eq 0 ]; then
    on_all until_ready
    return
  fi
  echo ready > "$mpi/state"
  child=$listener
  wait "$child"
  [ -n "$stopping" ] || fail 1 "sshd exited: see the log"
  write_back
  exit 143
}

# Lets the sidecars of the other nodes write back before the operator deletes these nodes. See written.sh.
flush_nodes() {
  [ ! -f "$dir/written.sh" ] || [ "$NUM_NODES" -eq 1 ] || on_all flush
}

flush() { # RANK
  left=$("$mpi/bin/ssh" "$(host_of "$1")" "for folder in $KUBECTL_SKY_FILES/sync/*; do
    rm -f \$folder/answer && : > \$folder/ended && until [ -e \$folder/answer ]; do sleep 1; done && cat \$folder/answer
  done" 2>&1)
  [ -z "$left" ] || printf '1\nrank %s: %s\n' "$1" "$left" > "$mpi/problem-$1"
}

# Sets the variables by which each MPI finds the nodes, unless it reads the operator's.
variables_of_mpi() {
  [ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  hosts=/etc/mpi/hostfile # the operator's; only rank 0 has it
  [ -f "$hosts" ] || return 0
  export PRTE_MCA_prte_default_hostfile="${PRTE_MCA_prte_default_hostfile-$hosts}"
  machines=$KUBECTL_SKY_FILES/machines
  sed 's/ slots=/:/' "$hosts" > "$machines"
  export HYDRA_HOST_FILE="${HYDRA_HOST_FILE-$machines}" I_MPI_HYDRA_HOST_FILE="${I_MPI_HYDRA_HOST_FILE-$machines}"
}
