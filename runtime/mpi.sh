# Joins the nodes of an MPIJob by ssh, with the keys that its operator made for it alone.
# Rank 0 tells all addresses to the others and runs the task when all have been set up; the others
# serve what mpirun starts there. Part of entry.sh, whose functions it uses and whose hooks it fills.

mpi=$KUBECTL_SKY_FILES/mpi
port=61138 # above the ephemeral ports; whoever listens on 22 is left alone
lost_after=120

host_of() { # RANK: its name, which the operator gave it
  if [ "$1" -eq 0 ]; then
    echo "$KUBECTL_SKY_SERVICE-launcher.$KUBECTL_SKY_SERVICE"
  else
    echo "$KUBECTL_SKY_SERVICE-worker-$(($1 - 1)).$KUBECTL_SKY_SERVICE"
  fi
}

program() { # NAME: its path; daemons may be outside of PATH, and want a whole one
  PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" ||
    fail 1 "the image has no $1: an MPIJob needs openssh-server, openssh-client and an MPI"
}

# Keys that nobody else can read, and how to reach the nodes; ssh everywhere else is as ever.
prepare() {
  rm -rf "$mpi" # of a container that was here before
  mkdir -p "$mpi/bin" && chmod 700 "$mpi" || fail 1 "$mpi cannot be made"
  (umask 077 && cat "$KUBECTL_SKY_KEYS/id_rsa" > "$mpi/key") ||
    fail 1 "the keys of the MPIJob are not in $KUBECTL_SKY_KEYS"
  echo "kubectl-sky $(cat "$KUBECTL_SKY_KEYS/id_rsa.pub")" > "$mpi/known_hosts"
  configure
  client=$(program ssh) || exit 1
  printf '#!/bin/sh\nexec %s -F %s/config "$@"\n' "$client" "$mpi" > "$mpi/bin/ssh"
  chmod 755 "$mpi/bin/ssh"
  export PATH="$mpi/bin:$PATH"
}

# Writes how to reach the nodes, by name and, when they are known, by address.
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

# Listens for what the other nodes want to start here.
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
  [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd 2> /dev/null # where it works without rights
  "$daemon" -D -e -f "$mpi/sshd" &
  listener=$!
}

meet_by_ssh() {
  prepare
  deadline=$(($(date +%s) + longest))
  if [ "$NODE_RANK" -eq 0 ]; then
    meet_by_name
    stay_until=0 # the operator keeps the names
    echo "$SKYPILOT_NODE_IPS" > "$mpi/nodes"
    on_all reach
  else
    listen
    until [ -s "$mpi/nodes" ]; do
      kill -0 "$listener" 2> /dev/null || fail 1 "sshd ended: see the log"
      [ "$(date +%s)" -lt "$deadline" ] ||
        fail 1 "gave up waiting for the other nodes after $longest seconds: no sign of rank 0"
      nap
    done
    SKYPILOT_NODE_IPS=$(cat "$mpi/nodes")
  fi
  configure
  export -p > "$mpi/environment" # of which ssh would not tell what comes by it
}

# Does a thing for each other node, so many at a time; ends this node with what one of them left.
on_all() { # FUNCTION
  rm -f "$mpi"/problem-*
  one=1
  while [ "$one" -lt "$NUM_NODES" ]; do
    "$1" "$one" &
    [ $((one % 64)) -ne 0 ] || wait
    one=$((one + 1))
  done
  wait
  for problem in "$mpi"/problem-*; do
    [ -f "$problem" ] || continue
    { read -r code && read -r message; } < "$problem"
    fail "$code" "$message"
  done
}

# Tells a node all addresses, and prints how far it is: nothing yet, ready, or failed CODE.
ask() { # RANK
  "$mpi/bin/ssh" "$(host_of "$1")" "cat > $mpi/told && mv $mpi/told $mpi/nodes &&
    { [ ! -s $mpi/state ] || { cat $mpi/state && touch $mpi/heard; }; }" < "$mpi/nodes" 2> "$mpi/said-$1"
}

reach() { # RANK
  until ask "$1" > /dev/null; do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      printf '1\ngave up waiting for the other nodes after %s seconds: no sign of rank %s: %s\n' \
        "$longest" "$1" "$(sed -n '$p' "$mpi/said-$1")" > "$mpi/problem-$1"
      return
    fi
    nap
  done
}

until_ready() { # RANK: a setup may take as long as it likes
  last=$(date +%s)
  while :; do
    if state=$(ask "$1"); then last=$(date +%s); fi
    case $state in
      ready) return ;;
      failed*)
        code=${state#failed }
        case $code in "" | *[!0-9]*) code=1 ;; esac
        printf '%s\nsetup failed with exit code %s on rank %s\n' "$code" "$code" "$1" > "$mpi/problem-$1"
        sleep 3 # that node is to be the first that ends
        return
        ;;
    esac
    if [ $(($(date +%s) - last)) -ge "$lost_after" ]; then
      printf '1\nrank %s is lost: it could not be reached for %s seconds\n' "$1" "$lost_after" > "$mpi/problem-$1"
      return
    fi
    nap
  done
}

setup_failed() { # CODE: rank 0 is to know of it
  [ "$NODE_RANK" -ne 0 ] && [ "$NUM_NODES" -gt 1 ] || return 0
  echo "failed $1" > "$mpi/state"
  deadline=$(($(date +%s) + 60))
  until [ -e "$mpi/heard" ] || [ "$(date +%s)" -ge "$deadline" ]; do nap; done
}

setup_done() {
  variables_of_mpi
  [ "$NUM_NODES" -gt 1 ] || return 0
  if [ "$NODE_RANK" -eq 0 ]; then
    on_all until_ready
    return
  fi
  echo ready > "$mpi/state"
  child=$listener
  wait "$child"
  [ -n "$ending" ] || fail 1 "sshd ended: see the log"
  exit 143
}

# What tells each MPI where the nodes are; those that know the operator's variables need none.
variables_of_mpi() {
  [ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  hosts=/etc/mpi/hostfile # the operator's; only rank 0 has it
  [ -f "$hosts" ] || return 0
  export PRTE_MCA_prte_default_hostfile="${PRTE_MCA_prte_default_hostfile-$hosts}"
  machines=$KUBECTL_SKY_FILES/machines
  sed 's/ slots=/:/' "$hosts" > "$machines"
  export HYDRA_HOST_FILE="${HYDRA_HOST_FILE-$machines}" I_MPI_HYDRA_HOST_FILE="${I_MPI_HYDRA_HOST_FILE-$machines}"
}
