# Runs run.sh. SIGTERM, as from "kubectl sky stop", goes to its processes; if they then exit with 0, this exits with 143.
export SKYPILOT_NUM_NODES="${SKYPILOT_NUM_NODES-1}" SKYPILOT_NODE_RANK=0 NUM_NODES=1 NODE_RANK=0
export SKYPILOT_NODE_IPS="$POD_IP" MASTER_ADDR="${MASTER_ADDR-$POD_IP}" SKYPILOT_NUM_JOBS=1 SKYPILOT_JOB_RANK=0
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}" BASH_ENV="${BASH_ENV-/etc/kubectl-sky/profile.sh}"
mkdir -p ~/sky_workdir 2> /dev/null && [ -w ~/sky_workdir ] || { export HOME=/kubectl-sky/user; mkdir -p ~/sky_workdir; }
cd "${KUBECTL_SKY_START_DIRECTORY-$HOME/sky_workdir}" || exit
shell=$(command -v bash) || { [ ! -f /etc/kubectl-sky/bash.sh ] || . /etc/kubectl-sky/bash.sh; shell="sh"; }
$(command -v setsid) "$shell" /etc/kubectl-sky/run.sh &
trap 'stopping=1; kill -TERM "-$!" || kill "$!"' TERM INT
exec 2> /dev/null
while wait "$!"; code=$?; kill -0 "$!"; do :; done
while [ "$stopping" ] && kill -0 "-$!"; do sleep 1; done
[ "$stopping" ] && [ "$code" = 0 ] && code=143; exit "$code"
