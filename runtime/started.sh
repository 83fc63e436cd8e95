# Startup probe of a node that waits for an upload or for the other nodes: succeeds when it goes on.
# Else prints what it waits for, as entry.sh and barrier.py have written it.
folder=${KUBECTL_SKY_FILES-/kubectl-sky}
seconds=0
until [ -e "$folder/started" ]; do
  seconds=$((seconds + 1))
  if [ "$seconds" -gt 30 ]; then
    echo "waiting for $(cat "$folder/awaited" 2> /dev/null || echo "its start")"
    exit 1
  fi
  sleep 1
done
