# Holds a failed container for a while, so that the user can look into it; it then ends with the same code. Part of entry.sh.

hold() { # CODE PHASE
  [ "$1" -ne 0 ] && [ -z "$stopping" ] || return 0
  result=$1
  until=$(($(date +%s) + ${KUBECTL_SKY_HOLD% *}))
  rank=$((NODE_RANK + SKYPILOT_JOB_RANK)) text="failed" options="" gpus=""
  [ "$2" = run ] || text="$2 failed"
  [ "$rank" -eq 0 ] || options=" --rank $rank"
  [ "$SKYPILOT_NUM_GPUS_PER_NODE" -eq 0 ] || gpus=" with $SKYPILOT_NUM_GPUS_PER_NODE GPUs"
  say "$text (exit $1), held$gpus for ${KUBECTL_SKY_HOLD#* }: kubectl sky exec ${SKYPILOT_TASK_ID##*-}$options -it -- ${shell##*/}"
  file=$KUBECTL_SKY_FILES/held
  echo "held $until $1 $2" > "$file.new" && mv "$file.new" "$file" # held.sh reports it
  while [ "$(date +%s)" -lt "$until" ]; do nap; done
}
