# Runs until the lifetime of a development pod ends, or until it has been idle for too long.
# The lines above this file set lifetime and idle in seconds; 0 for no limit.
# Not idle: a program that exec started is running, or the container uses more than 5 % of a CPU.
proc=/proc cgroup=/sys/fs/cgroup interval=10 # seconds

cpu_time() { # prints the CPU time of the container in microseconds; nothing if unknown
  if [ -r "$cgroup/cpu.stat" ]; then
    while read -r name value; do
      [ "$name" != usage_usec ] || echo "$value"
    done < "$cgroup/cpu.stat"
  elif [ -r "$cgroup/cpuacct/cpuacct.usage" ]; then # cgroup v1, in nanoseconds
    read -r value < "$cgroup/cpuacct/cpuacct.usage"
    echo $((value / 1000))
  fi
}

has_session() { # A program that exec started has no parent in the container, like process 1.
  for stat in "$proc"/[0-9]*/stat; do
    { read -r line < "$stat"; } 2> /dev/null || continue # the process has exited
    case $line in "1 "*) continue ;; esac
    # shellcheck disable=SC2086
    set -- ${line##*) } # the state and the parent; the name before them may contain anything
    [ "$2" != 0 ] || return 0
  done
  return 1
}

start=$(date +%s)
used=$start checked=$start before=$(cpu_time)
if [ "$idle" -gt 0 ] && [ -z "$before" ]; then
  echo "kubectl-sky: --idle is ignored: the CPU use of this container is unknown"
  idle=0
fi
echo "kubectl-sky: this node is ready and runs until the task is stopped"
while sleep "$interval"; do
  now=$(date +%s)
  if [ "$lifetime" -gt 0 ] && [ $((now - start)) -ge "$lifetime" ]; then
    echo "kubectl-sky: the time of this development pod is over ($lifetime seconds)"
    exit 0
  fi
  [ "$idle" -gt 0 ] || continue
  cpu=$(cpu_time)
  if has_session || [ $((${cpu:-0} - before)) -gt $(((now - checked) * 50000)) ]; then used=$now; fi
  before=${cpu:-0} checked=$now
  if [ $((now - used)) -ge "$idle" ]; then
    echo "kubectl-sky: no exec session and no CPU use for $idle seconds: this development pod ends"
    exit 0
  fi
done
