# Ends the program of a node that hangs, with the reason as its first argument. A client runs it, for on_hang.
group=$(cat "${KUBECTL_SKY_FILES-/kubectl-sky}/running") || exit
echo "hung: $1" > /dev/termination-log
kill -KILL "-$group" 2> /dev/null || kill -KILL "$group"
