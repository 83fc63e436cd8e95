# Sets SkyPilot's variables for event_callback, which follows. entry.sh sets JOB_STATUS.
export SKYPILOT_TASK_IDS="${SKYPILOT_TASK_IDS-$SKYPILOT_TASK_ID}" EVENT_TYPE=Spot
export CLUSTER_NAME="$SKYPILOT_TASK_ID" JOB_ID="${SKYPILOT_MANAGED_JOB_ID-${SKYPILOT_TASK_ID##*-}}" TASK_ID=0
for id in $SKYPILOT_TASK_IDS; do
  [ "$id" != "$SKYPILOT_TASK_ID" ] || break
  TASK_ID=$((TASK_ID + 1))
done
