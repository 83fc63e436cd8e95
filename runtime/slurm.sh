# Runs a batch script of Slurm: sets its variables, and puts srun, scontrol and module on PATH. Part of entry.sh.
# KUBECTL_SKY_SLURM is `batch` if run is for rank 0 alone, and `ranks` if it is for all nodes.

slurm=$KUBECTL_SKY_FILES/slurm
if [ -n "${KUBECTL_SKY_ARRAY-}" ]; then
  numbers=$KUBECTL_SKY_ARRAY
  . "$dir/array.sh"
  last=${numbers##*[,-]} first=${numbers%%[,-]*}
  export SLURM_ARRAY_TASK_ID="$SKYPILOT_JOB_RANK" SLURM_ARRAY_TASK_COUNT="$SKYPILOT_NUM_JOBS"
  export SLURM_ARRAY_TASK_MIN="$first" SLURM_ARRAY_TASK_MAX="$last"
fi

# Numbers and names of the job. Scripts make ports from its id: it is a number, the same on all nodes.
number=$(printf %s "$SKYPILOT_TASK_ID" | cksum)
SLURM_JOB_ID=$((10000000 + ${number%% *} % 80000000))
if [ -n "${SLURM_ARRAY_TASK_ID-}" ]; then
  export SLURM_ARRAY_JOB_ID="$SLURM_JOB_ID"
  SLURM_JOB_ID=$((SLURM_JOB_ID + JOB_COMPLETION_INDEX))
fi
SLURM_JOB_NODELIST=$POD_IP
SLURMD_NODENAME=$POD_IP
if [ "$NUM_NODES" -gt 1 ]; then
  SLURMD_NODENAME=$(host_of "$NODE_RANK")
  SLURM_JOB_NODELIST=$(host_of 0)
  rank=1
  while [ "$rank" -lt "$NUM_NODES" ]; do
    SLURM_JOB_NODELIST=$SLURM_JOB_NODELIST,$(host_of "$rank")
    rank=$((rank + 1))
  done
fi
SLURM_SUBMIT_HOST=${SLURM_JOB_NODELIST%%,*}
[ "$NUM_NODES" -eq 1 ] || times_nodes="(x$NUM_NODES)"
SLURM_NTASKS_PER_NODE=${SLURM_NTASKS_PER_NODE-1}
SLURM_NTASKS=${SLURM_NTASKS-$((SLURM_NTASKS_PER_NODE * NUM_NODES))}
SLURM_CPUS_ON_NODE=${SLURM_CPUS_ON_NODE-$((SLURM_NTASKS_PER_NODE * ${SLURM_CPUS_PER_TASK-1}))}
export SLURM_JOB_ID SLURM_JOBID="$SLURM_JOB_ID" SLURM_JOB_NAME="${SLURM_JOB_NAME-${SKYPILOT_TASK_ID%-*}}"
export SLURM_JOB_NODELIST SLURM_NODELIST="$SLURM_JOB_NODELIST" SLURMD_NODENAME SLURM_SUBMIT_HOST
export SLURM_JOB_NUM_NODES="$NUM_NODES" SLURM_NNODES="$NUM_NODES" SLURM_NODEID="$NODE_RANK" SLURM_LOCALID=0
export SLURM_PROCID="$NODE_RANK" SLURM_NTASKS SLURM_NPROCS="$SLURM_NTASKS" SLURM_NTASKS_PER_NODE
export SLURM_TASKS_PER_NODE="$SLURM_NTASKS_PER_NODE${times_nodes-}" SLURM_CPUS_ON_NODE
export SLURM_JOB_CPUS_PER_NODE="$SLURM_CPUS_ON_NODE${times_nodes-}" SLURM_SUBMIT_DIR="$PWD"
export SLURM_GPUS_ON_NODE="$SKYPILOT_NUM_GPUS_PER_NODE" SLURM_LAUNCH_NODE_IPADDR="$MASTER_ADDR"
[ "$KUBECTL_SKY_SLURM" = batch ] || export SLURM_STEP_ID=0 SLURM_STEP_NODELIST="$SLURM_JOB_NODELIST"
export SLURM_JOB_USER="$SKYPILOT_USER" SLURM_CLUSTER_NAME=kubernetes

# Writes a program for the script.
program_of_slurm() { # NAME: the text is stdin
  cat > "$slurm/bin/$1" && chmod 755 "$slurm/bin/$1" || fail 1 "cannot create $slurm/bin/$1"
}

rm -rf "$slurm" # from an earlier container
mkdir -p "$slurm/bin" || fail 1 "cannot create $slurm"
export PATH="$slurm/bin:$PATH"
if [ "$KUBECTL_SKY_SLURM" = batch ]; then
  python=$(command -v python3) || fail 1 "srun needs python3, and the image has none: set image_id"
  printf '#!/bin/sh\nexec %s -I %s/srun.py srun "$@"\n' "$python" "$dir" | program_of_slurm srun
fi
printf '#!/bin/sh\nexit 0\n' | program_of_slurm module
program_of_slurm singularity << 'END'
#!/bin/sh
# Runs the command in the image of the pod, which is that of the container.
set_variables() { # A=1,B=2
  IFS=,
  set -f
  for variable in $1; do
    export "$variable"
  done
}
while [ $# -gt 0 ]; do
  case $1 in
    exec | run) ;;
    --env) set_variables "$2" && shift ;;
    --env=*) set_variables "${1#--env=}" ;;
    -[BHSWo] | --bind | --home | --scratch | --workdir | --overlay | --mount | --no-mount | --pwd | --cwd) shift ;;
    --add-caps | --app | --apply-cgroups | --dns | --drop-caps | --env-file | --fusemount | --hostname) shift ;;
    --network | --network-args | --security | --authfile | --config | --pem-path) shift ;;
    --blkio-weight | --blkio-weight-device | --cpu-shares | --cpus | --cpuset-cpus | --cpuset-mems) shift ;;
    --memory | --memory-reservation | --memory-swap | --pids-limit) shift ;;
    -*) ;;
    *) break ;;
  esac
  shift
done
shift # the image
exec "$@"
END
ln -s singularity "$slurm/bin/apptainer"
ln -s module "$slurm/bin/ml"
program_of_slurm scontrol << 'END'
#!/bin/sh
case ${1-}:${2-} in
  show:hostname*)
    list=${3-$SLURM_JOB_NODELIST}
    case $list in
      *"["*) echo "scontrol: cannot expand $list: nodes have no ranges here" >&2 && exit 1 ;;
      *) echo "$list" | tr , '\n' ;;
    esac
    ;;
  show:job*)
    echo "JobId=$SLURM_JOB_ID JobName=$SLURM_JOB_NAME"
    echo "   UserId=$SLURM_JOB_USER JobState=RUNNING"
    echo "   NumNodes=$SLURM_JOB_NUM_NODES NumTasks=$SLURM_NTASKS NodeList=$SLURM_JOB_NODELIST BatchHost=$SLURM_SUBMIT_HOST"
    echo "   WorkDir=$SLURM_SUBMIT_DIR"
    ;;
  *)
    echo "scontrol: only show hostnames and show job work in a task: $*" >&2
    exit 1
    ;;
esac
END

# Starts what serves srun, if run is for rank 0 alone: the other nodes run it in place of run.
serve_srun() {
  [ "$KUBECTL_SKY_SLURM" = batch ] || return 0
  if [ "$NODE_RANK" -ne 0 ]; then
    phase=serve
    return
  fi
  "$python" -I "$dir/srun.py" lead &
  lead=$!
  unset KUBECTL_SKY_CHANNEL
  until [ -S "$slurm/socket" ]; do
    kill -0 "$lead" 2> /dev/null || fail 1 "srun cannot start: see the log"
    nap
  done
}

# Tells the other nodes that run has ended.
end_srun() {
  [ -n "${lead-}" ] || return 0
  kill -TERM "$lead" 2> /dev/null && wait "$lead" 2> /dev/null
}
