# Startup probe of a node that waits for an upload: succeeds after files.sh has unpacked all files.
seconds=0
until [ -e "${KUBECTL_SKY_FILES-/kubectl-sky}/complete" ]; do
  seconds=$((seconds + 1))
  if [ "$seconds" -gt 30 ]; then
    echo "waiting for files"
    exit 1
  fi
  sleep 1
done
