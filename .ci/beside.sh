#!/bin/sh
# Run one command beside others: `beside.sh NAME BESIDE COMMAND…`, each a line for sh. The commands
# run one after the other; what BESIDE prints comes at the end. Fails with the first that fails.
set -u
name=$1
log=$(mktemp)
sh -c "exec $2" > "$log" 2>&1 &
beside=$!
shift 2

end() {
    trap '' INT TERM HUP
    kill "$beside" 2> /dev/null
    rm -f "$log"
    exit "$1"
}
trap 'end 130' INT
trap 'end 143' TERM HUP

printf 'beside the next steps: %s\n' "$name"
for command; do
    sh -c "$command" || end $?
done
if kill -0 "$beside" 2> /dev/null; then
    printf '\nwaiting for %s; so far:\n' "$name"
    tail -n +1 -f "$log" &
    shown=$!
    wait "$beside"
    code=$?
    kill "$shown"
else
    wait "$beside"
    code=$?
    printf '\n%s:\n' "$name"
    cat "$log"
fi
rm -f "$log"
exit "$code"
