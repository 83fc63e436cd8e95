# Startup probe of a node that waits for an upload or for the other nodes: succeeds when it goes on.
# Else prints what it waits for, as entry.sh and barrier.py have written it.
folder=${KUBECTL_SKY_FILES-/kubectl-sky}
end=$(($(date +%s) + 30))
until [ -e "$folder/started" ]; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "waiting for $(cat "$folder/awaited" 2> /dev/null || echo "its start")"
    exit 1
  fi
  sleep 0.2 2> /dev/null || sleep 1
done
