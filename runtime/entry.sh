#!/bin/sh
# Starts one node of a task: gets its files, waits for all ranks, then runs setup and run.
# Requires only sh. Uses bash for the user's scripts and setsid for signals if the image has them.
# As process 1 it also reaps orphaned processes. The other scripts in this folder are its parts.
set -u
dir=${0%/*}
export KUBECTL_SKY_FILES="${KUBECTL_SKY_FILES-/kubectl-sky}"
mpi=${KUBECTL_SKY_KEYS:+yes} # whether the task is an MPIJob
child=
stopping=
times= # when the node had started, and when setup began and ended, for the timeline

say() { echo "kubectl-sky: $*"; } # to stdout, to keep its position among the user's lines

fail() { # CODE MESSAGE: "kubectl sky status" shows the message as the reason
  say "$2"
  echo "$2" > /dev/termination-log 2> /dev/null
  exit "$1"
}

write_back() { unwritten=; } # written.sh does it for synced buckets

# Tells the startup probe, if the node has one, what it waits for.
await() { [ ! -f "$dir/started.sh" ] || echo "$1" > "$KUBECTL_SKY_FILES/awaited"; } # WHAT

nap() { sleep 0.3 2> /dev/null || sleep 1; }

# Passes a signal to the user's processes, which have the pod's grace period to exit.
stop() {
  [ -z "$child" ] || [ -n "$stopping" ] || [ ! -f "$dir/hooks.sh" ] || . "$dir/hooks.sh"
  stopping=1
  [ -n "$child" ] || exit "${result-143}"
  kill -TERM "-$child" 2> /dev/null || kill -TERM "$child" 2> /dev/null
}
trap stop TERM INT

report() { :; } # STATUS: callback.sh runs event_callback

launch() { exec "$@"; } # sweep.sh exports variables before

# Chooses the shell for the user's scripts. They are written for bash; setup may install it.
choose_shell() {
  shell=$(command -v bash) && return
  shell="sh"
  [ ! -f "$dir/bash.sh" ] || . "$dir/bash.sh"
}

# Runs one of the user's scripts in its own process group and returns its exit code. That of a script
# that was told to stop is never 0: a program that saves and exits has not finished its work.
run_phase() { # NAME
  choose_shell
  if command -v setsid > /dev/null; then
    launch setsid "$shell" "$dir/$1.sh" &
  else
    launch "$shell" "$dir/$1.sh" &
  fi
  child=$!
  if [ -n "${KUBECTL_SKY_ON_HANG-}${KUBECTL_SKY_SLURM-}" ]; then
    echo "$child" > "$KUBECTL_SKY_FILES/running" # for kill.sh, and for signals of Slurm
  fi
  wait "$child" 2> /dev/null # 2>: the shell prints which signal ended it
  code=$?
  while [ "$code" -gt 128 ] && kill -0 "$child" 2> /dev/null; do # interrupted by a signal
    wait "$child" 2> /dev/null
    code=$?
  done
  rm -f "$KUBECTL_SKY_FILES/running"
  while [ -n "$stopping" ] && kill -0 "-$child" 2> /dev/null; do nap; done # the children of the script
  [ -z "$stopping" ] || [ "$code" -ne 0 ] || code=143
  child=
  return "$code"
}

setup() {
  export SKYPILOT_SETUP_NODE_IPS="$SKYPILOT_NODE_IPS" SKYPILOT_SETUP_NODE_RANK="$NODE_RANK"
  export SKYPILOT_SETUP_NUM_GPUS_PER_NODE="$SKYPILOT_NUM_GPUS_PER_NODE"
  say "setup begins"
  start=$(date +%s)
  run_phase setup
  code=$?
  if [ -n "$stopping" ] || [ "$code" -ne 0 ]; then write_back; fi
  [ "$code" -eq 0 ] || report FAILED
  [ -z "$stopping" ] || exit 143
  if [ "$code" -ne 0 ]; then
    [ -z "$mpi" ] || report_failed_setup "$code"
    [ -z "${KUBECTL_SKY_HOLD-}" ] || hold "$code" setup
    fail "$code" "setup failed with exit code $code"
  fi
  times="$times setup $start $(date +%s)"
  say "setup has ended after $((${times##* } - start)) seconds, run begins"
  unset SKYPILOT_SETUP_NODE_IPS SKYPILOT_SETUP_NODE_RANK SKYPILOT_SETUP_NUM_GPUS_PER_NODE
}

# Creates a folder if needed, and returns whether it is writable.
folder() { mkdir -p "$1" 2> /dev/null && [ -w "$1" ] && [ -x "$1" ]; }

# Sets HOME to a directory with a writable sky_workdir.
choose_home() {
  home=${HOME-} home=${home%/}
  if ! folder "$home/sky_workdir"; then # the image's home is not writable
    home=$KUBECTL_SKY_FILES/user
    export HOME="$home"
  fi
  folder "$home/sky_workdir" || fail 1 "cannot write to the home directory or $KUBECTL_SKY_FILES"
}

shell=$(command -v bash || command -v sh)
export NUM_NODES="${NUM_NODES-1}" NODE_RANK="${NODE_RANK-0}"
export SKYPILOT_NUM_NODES="${SKYPILOT_NUM_NODES-$NUM_NODES}" SKYPILOT_NODE_RANK="$NODE_RANK"
export SKYPILOT_NUM_JOBS="${SKYPILOT_NUM_JOBS-1}" SKYPILOT_JOB_RANK=0 PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"
[ "$NUM_NODES" -eq 1 ] || . "$dir/nodes.sh"
[ -z "${KUBECTL_SKY_HOLD-}" ] || . "$dir/hold.sh"
[ -z "$mpi" ] || . "$dir/mpi.sh"
[ ! -f "$dir/callback.sh" ] || . "$dir/callback.sh"
if [ -z "${KUBECTL_SKY_MET-}" ]; then # barrier.py runs this script again
  rm -f "$KUBECTL_SKY_FILES/started" # of an earlier container of the pod
  choose_home
  [ -z "${KUBECTL_SKY_LINKS-}" ] || . "$dir/links.sh"
  start_directory=${KUBECTL_SKY_START_DIRECTORY-$home/sky_workdir}
  cd "$start_directory" || fail 1 "cannot go to $start_directory" # once: OLDPWD is the image's directory
  if [ -f "$dir/files.txt" ] || [ -f "$dir/repository.txt" ]; then . "$dir/files.sh"; fi
fi
# Like SkyPilot's bash, start with ~/.bashrc and conda, unless the user sets BASH_ENV.
if [ -f "$dir/profile.sh" ]; then export BASH_ENV="${BASH_ENV-$dir/profile.sh}"; fi
[ ! -f "$dir/sudo.sh" ] || . "$dir/sudo.sh"
[ ! -f "$dir/ray.sh" ] || . "$dir/ray.sh"
stay_until=0
if [ "$NUM_NODES" -eq 1 ]; then SKYPILOT_NODE_IPS=$POD_IP; else meet; fi
if [ -f "$dir/started.sh" ]; then
  : > "$KUBECTL_SKY_FILES/started"
  times="started $(date +%s)"
fi
unset KUBECTL_SKY_MET KUBECTL_SKY_LINKS KUBECTL_SKY_TOKEN
export SKYPILOT_NODE_IPS MASTER_ADDR="${MASTER_ADDR-${SKYPILOT_NODE_IPS%%
*}}"
[ ! -f "$dir/written.sh" ] || . "$dir/written.sh"
[ -z "${KUBECTL_SKY_SLURM-}" ] || . "$dir/slurm.sh"
[ -z "${KUBECTL_SKY_ARRAY-}" ] || . "$dir/array.sh"
[ -z "${KUBECTL_SKY_LOGS-}" ] || . "$dir/logs.sh"
report STARTING
[ ! -f "$dir/setup.sh" ] || setup
[ -z "$mpi" ] || start_mpi
report STARTED
[ -z "${KUBECTL_SKY_SLURM-}" ] || serve_srun
run_phase "${phase-run}"
result=$code
[ -z "${KUBECTL_SKY_SLURM-}" ] || end_srun
if [ -f "$dir/ray.sh" ] && [ "$result" -eq 0 ]; then stay_in_ray; fi
write_back
[ "$result" -ne 0 ] || [ -z "$unwritten" ] || result=1
[ "$result" -ne 0 ] || [ -z "$mpi" ] || flush_nodes
if [ "$result" -eq 0 ]; then report SUCCEEDED; else report FAILED; fi
[ -z "${KUBECTL_SKY_HOLD-}" ] || hold "$result" run
[ "$result" -ne 0 ] || [ -z "$times" ] || echo "$times" 2> /dev/null > /dev/termination-log
while [ "$(date +%s)" -lt "$stay_until" ]; do nap; done
exit "$result"
