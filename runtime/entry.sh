#!/bin/sh
# Starts one node of a task: waits until every rank is there, then runs setup and run.
# Needs only sh and writes nowhere; uses bash for the user's scripts, python3 for the barrier and
# setsid for signals where the image has them. Where it is process 1 it ends the orphans, too.
set -u
dir=${0%/*}
child=
ending=

say() { echo "kubectl-sky: $*"; } # to stdout: it keeps its place among the lines of the user

fail() { # CODE MESSAGE: the message is what `kubectl sky status` shows as the reason
  say "$2"
  echo "$2" > /dev/termination-log 2> /dev/null
  exit "$1"
}

nap() { sleep 0.3 2> /dev/null || sleep 1; }

# Asked to end: the user's processes are told, and have the pod's grace period for it.
end() {
  ending=1
  [ -n "$child" ] || exit 143
  kill -TERM "-$child" 2> /dev/null || kill -TERM "$child" 2> /dev/null
}
trap end TERM INT

# Puts volumes into the home directory, of which only the running container knows where it is.
link_home() {
  echo "$KUBECTL_SKY_LINKS" | while IFS= read -r line; do
    target=${line%% *}
    link="${HOME:-}/${line#* }"
    [ ! -d "$link" ] || [ -L "$link" ] || rmdir "$link" 2> /dev/null ||
      fail 1 "~/${line#* } is there already and not empty: the image has files in $link"
    mkdir -p "${link%/*}" 2> /dev/null && ln -sfn "$target" "$link" 2> /dev/null ||
      fail 1 "~/${line#* } cannot be made: the user $(id -u) may not write to ${link%/*}"
  done
}

# Prints the address of a host name, or nothing: also when there are several, as one of them is a
# stranger's or about to go, and when it is no address, as it ends up in the user's scripts.
resolve() {
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
    # busybox leaves the search list alone where a name has dots; its first entry is our namespace
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

# What the nodes of an MPIJob do otherwise; see mpi.sh.
host_of() { echo "${KUBECTL_SKY_HOSTS-node-}$1.$KUBECTL_SKY_SERVICE"; } # RANK
setup_failed() { :; }                                                   # CODE
setup_done() { :; }

# Sets SKYPILOT_NODE_IPS to all addresses in rank order, once every rank has one.
meet_by_name() {
  command -v getent > /dev/null || command -v nslookup > /dev/null ||
    fail 1 "the image has none of python3, getent and nslookup, so the nodes cannot find each other"
  rank=0
  SKYPILOT_NODE_IPS=
  deadline=$(($(date +%s) + longest))
  while [ "$rank" -lt "$NUM_NODES" ]; do
    if [ "$rank" -eq "$NODE_RANK" ]; then found=$POD_IP; else found=$(resolve "$(host_of "$rank")"); fi
    if [ -n "$found" ]; then
      SKYPILOT_NODE_IPS="$SKYPILOT_NODE_IPS${SKYPILOT_NODE_IPS:+
}$found"
      rank=$((rank + 1))
    elif [ "$(date +%s)" -ge "$deadline" ]; then
      missing
    else
      nap
    fi
  done
}

# Gives up, and names all ranks from $rank on that have no address.
missing() {
  absent=
  while [ "$rank" -lt "$NUM_NODES" ]; do
    [ "$rank" -eq "$NODE_RANK" ] || [ -n "$(resolve "$(host_of "$rank")")" ] ||
      absent="$absent${absent:+, }$rank"
    rank=$((rank + 1))
  done
  fail 1 "gave up waiting for the other nodes after $longest seconds: no address of rank ${absent:-any more}"
}

# Runs one of the user's scripts in a process group of its own; its exit code is ours.
run_phase() {
  if command -v setsid > /dev/null; then
    setsid "$shell" "$dir/$1.sh" &
  else
    "$shell" "$dir/$1.sh" &
  fi
  child=$!
  wait "$child" 2> /dev/null # or the shell tells into the user's log by which signal it ended
  code=$?
  while [ "$code" -gt 128 ] && kill -0 "$child" 2> /dev/null; do # a signal woke us, not its end
    wait "$child" 2> /dev/null
    code=$?
  done
  while [ -n "$ending" ] && kill -0 "-$child" 2> /dev/null; do nap; done # what it started ends too
  child=
  return "$code"
}

# Prints the number at a place, from 0, of a list such as 0,3,7-9.
number_at() {
  (
    place=$2
    IFS=,
    for part in $1; do
      size=$((${part#*-} - ${part%-*} + 1))
      [ "$place" -ge "$size" ] || echo $((${part%-*} + place))
      [ "$place" -ge "$size" ] || break
      place=$((place - size))
    done
  )
}

longest=${KUBECTL_SKY_BARRIER_TIMEOUT:-1800}
case $longest in *[!0-9]*) fail 2 "KUBECTL_SKY_BARRIER_TIMEOUT is no whole number of seconds: $longest" ;; esac
shell=$(command -v bash || command -v sh)
. "$dir/files.sh"
[ ! -f "$dir/mpi.sh" ] || . "$dir/mpi.sh"
[ -n "${KUBECTL_SKY_MET-}" ] || choose_home
[ -z "${KUBECTL_SKY_LINKS-}" ] || link_home || exit 1
[ -n "${KUBECTL_SKY_MET-}" ] || bring_files
# bash begins as SkyPilot's does, with ~/.bashrc and conda; a BASH_ENV of the user's own is left alone
case $shell in *bash) export BASH_ENV="${BASH_ENV-$dir/profile.sh}" ;; esac
[ ! -f "$dir/sudo.sh" ] || . "$dir/sudo.sh"
stay_until=0
if [ "$NUM_NODES" -eq 1 ]; then
  SKYPILOT_NODE_IPS=$POD_IP
elif [ -f "$dir/mpi.sh" ]; then
  meet_by_ssh
elif [ -z "${KUBECTL_SKY_MET-}" ]; then
  if command -v python3 > /dev/null; then
    exec python3 -I "$dir/barrier.py" "$KUBECTL_SKY_SERVICE" # comes back here with all addresses
  fi
  meet_by_name
  # A node that ends at once would vanish from DNS before slower nodes have seen it.
  stay_until=$(($(date +%s) + 10 + NUM_NODES / 20))
fi
unset KUBECTL_SKY_MET KUBECTL_SKY_LINKS KUBECTL_SKY_TOKEN
export SKYPILOT_NODE_IPS
export MASTER_ADDR="${MASTER_ADDR-${SKYPILOT_NODE_IPS%%
*}}"
if [ -n "${KUBECTL_SKY_ARRAY-}" ]; then
  SKYPILOT_JOB_RANK=$(number_at "$KUBECTL_SKY_ARRAY" "$JOB_COMPLETION_INDEX")
  export SKYPILOT_JOB_RANK
fi
unset KUBECTL_SKY_ARRAY
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"

if [ -f "$dir/setup.sh" ]; then
  export SKYPILOT_SETUP_NODE_IPS="$SKYPILOT_NODE_IPS" SKYPILOT_SETUP_NODE_RANK="$NODE_RANK"
  export SKYPILOT_SETUP_NUM_GPUS_PER_NODE="$SKYPILOT_NUM_GPUS_PER_NODE"
  say "setup begins"
  begun=$(date +%s)
  run_phase setup
  code=$?
  [ -z "$ending" ] || exit 143
  [ "$code" -eq 0 ] || setup_failed "$code"
  [ "$code" -eq 0 ] || fail "$code" "setup failed with exit code $code"
  say "setup has ended after $(($(date +%s) - begun)) seconds, run begins"
  unset SKYPILOT_SETUP_NODE_IPS SKYPILOT_SETUP_NODE_RANK SKYPILOT_SETUP_NUM_GPUS_PER_NODE
fi
setup_done
run_phase run
while [ -z "$ending" ] && [ "$(date +%s)" -lt "$stay_until" ]; do nap; done
exit "$code"
