# Startup probe of a node that waits for an upload or for the other nodes: succeeds when it goes on.
# Else prints what it waits for, as entry.sh and barrier.py have written it.
folder=${KUBECTL_SKY_FILES-/kubectl-sky}
pause=0.2 # most nodes go on at once; those that wait leave the processor to the others
tries=0
until [ -e "$folder/started" ]; do
  tries=$((tries + 1))
  [ "$tries" -le 10 ] || pause=1
  if [ "$tries" -gt 40 ]; then
    echo "waiting for $(cat "$folder/awaited" 2> /dev/null || echo "its start")"
    exit 1
  fi
  sleep "$pause" 2> /dev/null || sleep 1
done
