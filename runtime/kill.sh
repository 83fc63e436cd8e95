# Kills the program of a node that hangs, with the reason as its first argument. A client runs it, for on_hang.
group=$(cat "${KUBECTL_SKY_FILES-/kubectl-sky}/running" 2> /dev/null) && kill -0 "$group" 2> /dev/null || exit
echo "hung: $1" > /dev/termination-log
{ kill -KILL "-$group" || kill -KILL "$group"; } 2> /dev/null && echo killed
