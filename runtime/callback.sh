# Runs event_callback on rank 0, for at most half a minute, and whatever it does changes no result. Part of entry.sh.
# Its output is no output of the task, whose last lines tell why it has failed.

report() { # STATUS
  [ "$NODE_RANK" -eq 0 ] || return 0
  [ -z "$stopping" ] || set CANCELLED
  printed=$KUBECTL_SKY_FILES/callback.log
  ( # a process of its own: a signal to the task does not end it
    JOB_STATUS=$1 $(command -v setsid) "$shell" "$dir/event_callback.sh" > "$printed" 2>&1 &
    callback=$!
    (sleep 30 && { kill -KILL "-$callback" || kill -KILL "$callback"; }) > /dev/null 2>&1 &
    timer=$!
    wait "$callback" 2> /dev/null
    told=$?
    kill -KILL "$timer" 2> /dev/null
    exit "$told"
  )
  told=$?
  head -c 65536 "$printed" |
    while IFS= read -r line || [ -n "$line" ]; do printf 'kubectl-sky: event_callback: %s\n' "$line"; done
  rm -f "$printed"
  case $told in
    0) ;;
    137) say "event_callback of $1 was killed after 30 seconds" ;;
    *) say "event_callback of $1 failed with exit code $told" ;;
  esac
}
