# Exports the variables of a sweep to the user's scripts, with the values of this task. Part of entry.sh.

launch() { # in a process of its own: a variable may have the name of one of entry.sh
  sweep_index=$JOB_COMPLETION_INDEX
  for sweep_variable in $KUBECTL_SKY_SWEEP; do # NAME=COUNT; the first one varies fastest
    sweep_name=${sweep_variable%=*}
    sweep_count=${sweep_variable#*=}
    eval "export $sweep_name=\"\$KUBECTL_SKY_SWEEP_${sweep_name}_$((sweep_index % sweep_count))\""
    sweep_index=$((sweep_index / sweep_count))
  done
  unset sweep_index sweep_variable sweep_name sweep_count
  exec "$@"
}
