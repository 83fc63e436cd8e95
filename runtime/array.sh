# Sets SKYPILOT_JOB_RANK to the number of this task in its array. Part of entry.sh.

# Prints the number at an index, from 0, of a list such as 0,3,7-9.
number_at() { # LIST INDEX
  (
    index=$2
    IFS=,
    for range in $1; do
      size=$((${range#*-} - ${range%-*} + 1))
      [ "$index" -ge "$size" ] || echo $((${range%-*} + index))
      [ "$index" -ge "$size" ] || break
      index=$((index - size))
    done
  )
}

SKYPILOT_JOB_RANK=$(number_at "$KUBECTL_SKY_ARRAY" "$JOB_COMPLETION_INDEX")
unset KUBECTL_SKY_ARRAY
[ -z "${KUBECTL_SKY_SWEEP-}" ] || . "$dir/sweep.sh"
