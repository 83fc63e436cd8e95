# Prints where the programs of a container are. Each process begins with "@process COMMAND" and "@source NAME"; then come frames,
# the innermost first: those of Python's main thread by py-spy; none if the program's file registers faulthandler for a signal,
# which then writes to the log; else its state and kernel stack. "@used" has what tells whether it goes on, "@unread" what could
# not be read.
# "kubectl sky stacks" and "doctor" run it as the container's user; others with "quiet": it then sends no signal.
# flight_recorder.py, which adds "@recorder" lines, has so many bytes of stdin as the second word says; the third is the time.
quiet=${1-}
now=${3-}
python=
recorder=$(head -c "${2:-0}")
PATH="$PATH:$HOME/.local/bin:/opt/conda/bin:${KUBECTL_SKY_FILES-/kubectl-sky}/bin"

by_py_spy() { # PID
  command -v py-spy > /dev/null || { echo "@unread py-spy: not found in the image"; return 1; }
  dump=$(py-spy dump --pid "$1" 2>&1) ||
    { echo "@unread py-spy: $(echo "$dump" | sed -n '/./{p;q;}' | cut -c 1-200)"; return 1; }
  echo "@source py-spy"
  main='.*"MainThread"' # a program without threads does not name it
  echo "$dump" | grep -q "^Thread $main" || main="$1 "
  echo "$dump" | grep -q "^Thread $main" || main=
  echo "$dump" | sed -n "/^Thread $main/{:a;n;/^Thread /q;s/^    //p;ba;}"
}

# Signals a process only if its file registers faulthandler for SIGUSR1 or SIGUSR2, and it catches that signal: any other
# handler may do something else, and without one the process would end.
by_faulthandler() { # PID
  [ -z "$quiet" ] || return 1
  file=$(tr '\000' '\n' < "/proc/$1/cmdline" | sed -n '/\.py$/{p;q;}')
  case $file in "") return 1 ;; /*) file=/proc/$1/root$file ;; *) file=/proc/$1/cwd/$file ;; esac
  name=$(sed -n '/faulthandler\.register(.*SIGUSR[12]/{s/.*SIG\(USR[12]\).*/\1/p;q;}' "$file" 2> /dev/null)
  case $name in USR1) bit=0x200 ;; USR2) bit=0x800 ;; *) return 1 ;; esac
  mask=$(sed -n 's/^SigCgt:[^0-9a-f]*//p' "/proc/$1/status")
  [ $((0x${mask#????????????} & bit)) -ne 0 ] && kill "-$name" "$1" && echo "@source faulthandler"
}

by_proc() { # PID
  echo "@source proc"
  state=$(sed -n 's/^State:.*(\(.*\))/\1/p' "/proc/$1/status")
  if wchan=$(cat "/proc/$1/wchan" 2> /dev/null); then
    case $wchan in "" | 0) ;; *) state="$state in $wchan" ;; esac
  else
    echo "@unread /proc/PID/wchan: permission denied"
  fi
  echo "$state"
  sed 's/^\[<.*>\] //; s/+0x.*//' "/proc/$1/stack" 2> /dev/null || echo "@unread /proc/PID/stack: it needs root"
}

count=0
for folder in /proc/[0-9]*; do
  pid=${folder#/proc/}
  [ "$pid" != 1 ] && [ "$pid" != "$$" ] && { read -r line < "$folder/stat"; } 2> /dev/null || continue
  # shellcheck disable=SC2086
  set -- ${line##*) } # the state and the parent; the name before them may contain anything
  [ "$2" != 0 ] && [ "$1" != Z ] || continue # a program of exec has no parent
  command=$(tr '\000\n\r' '   ' < "$folder/cmdline" 2> /dev/null | cut -c 1-300)
  case $command in "" | */etc/kubectl-sky/*) continue ;; esac
  count=$((count + 1))
  [ "$count" -le 64 ] || { echo "@unread more than 64 processes"; break; }
  echo "@process $command"
  shift 11 # up to the ticks of the processor; rchar and wchar are the bytes that it has read and written
  moved=$(sed -n 's/^[rw]char: //p' "$folder/io" 2> /dev/null | tr '\n' ' ')
  echo "@used $1 $2 $moved"
  if grep -q python "$folder/maps" 2> /dev/null || [ "${command#*python}" != "$command" ]; then
    by_py_spy "$pid" || by_faulthandler "$pid" || by_proc "$pid"
    [ -n "$python" ] || python=$(readlink "$folder/exe" | grep '/python[0-9.]*$')
  else
    by_proc "$pid"
  fi
done

[ -n "$python" ] || python=$(command -v python3) # of a held container
[ -z "$recorder" ] || [ -z "$python" ] || "$python" -I -S -c "$recorder" "$now" 2> /dev/null ||
  echo "@unread flight recorder: reading its files failed: exit code $?"
