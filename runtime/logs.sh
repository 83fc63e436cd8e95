# Writes the log of this node also to $KUBECTL_SKY_LOGS/TASK/node-N.log, on a volume. Part of entry.sh.

log=$KUBECTL_SKY_LOGS/$SKYPILOT_TASK_ID/node-$((NODE_RANK + SKYPILOT_JOB_RANK)).log # one of the ranks is 0
pipe=$KUBECTL_SKY_FILES/log
command -v tee > /dev/null && command -v mkfifo > /dev/null || fail 1 "logs: the image has no tee and mkfifo"
{ mkdir -p "${log%/*}" && : >> "$log"; } 2> /dev/null || fail 1 "logs: cannot write to $log"
rm -f "$pipe"
mkfifo "$pipe" || fail 1 "logs: cannot create $pipe"
exec 3>&1
# Signals are for the task. tee is no job of this shell: mpi.sh waits for all jobs.
tee=$(
  (
    trap '' TERM INT
    exec tee -a "$log" >&3 3>&-
  ) > /dev/null < "$pipe" &
  echo $!
)
exec > "$pipe" 2>&1 3>&-
rm -f "$pipe"

# Waits until all lines are written: tee has then exited, or the log has the last line while a process that
# run left behind keeps tee. A volume that is full or does not answer keeps the node for 30 seconds.
end_log() {
  code=$?
  trap '' TERM INT
  end="exit code $code at $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  nap # until tee has written the last line of the task, which may lack its end
  [ -z "$(tail -c 1 "$log")" ] || echo
  say "$end"
  exec > /dev/null 2>&1
  deadline=$(($(date +%s) + 30))
  while kill -0 "$tee" && [ "$(date +%s)" -lt "$deadline" ]; do
    nap
    case $(tail -c 65536 "$log") in *"$end"*) break ;; esac
  done
  exit "$code"
}
trap end_log EXIT
