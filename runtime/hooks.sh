# Runs the hooks of the task before SIGTERM goes to its program. Part of entry.sh.

hook() { # EVENT SECONDS FILE: hooks of other events than preemption run on rank 0 only
  [ "$1" = preemption ] || [ "$NODE_RANK" -eq 0 ] || return 0
  say "hook for $1 begins"
  SKYPILOT_HOOK_EVENT=$1 $(command -v setsid) "$shell" "$dir/$3" &
  hook=$!
  (sleep "$2" && { kill -KILL "-$hook" || kill -KILL "$hook"; }) > /dev/null 2>&1 &
  timer=$!
  wait "$hook" 2> /dev/null
  ended=$?
  while [ "$ended" -gt 128 ] && kill -0 "$hook" 2> /dev/null; do # interrupted by a second signal
    wait "$hook" 2> /dev/null
    ended=$?
  done
  kill -KILL "$timer" 2> /dev/null && wait "$timer" 2> /dev/null
  case $ended in
    0) say "hook for $1 has ended" ;;
    137) say "hook for $1 was killed: its timeout is $2 seconds" ;;
    *) say "hook for $1 failed with exit code $ended" ;;
  esac
}

trap : TERM INT # a second signal changes nothing
