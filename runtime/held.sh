#!/bin/sh
# Reports in the pod's status that hold.sh holds the container main: as the end of this sidecar, which the kubelet restarts.
file=${KUBECTL_SKY_FILES-/kubectl-sky}/held
trap 'exit 0' TERM
while sleep 1; do
  if [ -s "$file" ] && [ ! -e "$file.reported" ]; then
    : > "$file.reported"
    cat "$file" > /dev/termination-log
    exit 0
  fi
done
