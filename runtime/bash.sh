# The image has no bash, for which the scripts are written: fails if its sh lacks what they use. The lines above
# this file say what that is: $of_bash is known to bash only, $of_busybox to busybox's sh, too.
lacks=$of_bash
sh -c 'set -o pipefail; [[ a == a ]] && source /dev/null' 2> /dev/null || lacks=${of_bash:-$of_busybox}
if [ -n "$lacks" ]; then
  echo "kubectl-sky: the image has no bash, and $lacks"
  echo "the image has no bash, and $lacks" > /dev/termination-log 2> /dev/null
  exit 1
fi
[ -n "${told-}" ] || echo "kubectl-sky: the image has no bash: its sh runs the scripts"
told=yes
