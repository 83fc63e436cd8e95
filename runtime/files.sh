# Brings the user's files to where they belong, and goes to where setup and run begin.
# Part of entry.sh, which has say, fail and nap. What of it needs a disk is in $KUBECTL_SKY_FILES.

# Makes sure that there is a folder in which we may write.
folder() { mkdir -p "$1" 2> /dev/null && [ -w "$1" ] && [ -x "$1" ]; }

# Takes files from the volume that keeps them, where there is one and has them.
take() {
  [ -f "$dir/shelf.txt" ] || return 0
  sh "$dir/unpack.sh" "$1" shelf > /dev/null 2>&1 &
  wait "$!" # which hears signals
}

# Waits for the files that the submitting machine sends: number N, into a folder that it is told.
await() {
  [ -e "$KUBECTL_SKY_FILES/arrived-$1" ] || take "$1"
  [ -e "$KUBECTL_SKY_FILES/arrived-$1" ] || [ -e "$KUBECTL_SKY_FILES/failed-$1" ] ||
    say "waiting for files from the machine that submitted the task"
  patience=${KUBECTL_SKY_FILES_TIMEOUT:-600}
  deadline=$(($(date +%s) + patience))
  while [ ! -e "$KUBECTL_SKY_FILES/arrived-$1" ]; do
    if [ -e "$KUBECTL_SKY_FILES/failed-$1" ]; then
      IFS= read -r reason < "$KUBECTL_SKY_FILES/failed-$1"
      fail 1 "the files for $2 could not be unpacked: $reason"
    elif [ -e "$KUBECTL_SKY_FILES/coming-$1" ]; then
      deadline=$(($(date +%s) + patience)) # they may break off, and come again
    elif [ "$(date +%s)" -ge "$deadline" ]; then
      fail 1 "no files came for $2 in $patience seconds: what submitted the task has gone; submit it again"
    fi
    take "$1"
    nap
  done
}

# Whether an archive of number N is the one that was submitted: anybody may have made a ConfigMap
# of its name before. Those of a Secret have no digest.
intact() { # N FILE
  wanted=
  [ ! -f "$dir/digests.txt" ] || while read -r one digest; do
    [ "$one" != "$1" ] || wanted=$digest
  done < "$dir/digests.txt"
  [ -n "$wanted" ] || return 0
  if command -v sha256sum > /dev/null; then
    found=$(sha256sum < "$2")
  elif command -v python3 > /dev/null; then
    found=$(python3 -c 'import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' < "$2")
  else
    fail 1 "the image has neither sha256sum nor python3 to check the files with"
  fi
  [ "${found%% *}" = "$wanted" ]
}

# Makes sure that there is a home directory with sky_workdir in it.
choose_home() {
  home=${HOME-} home=${home%/}
  if ! folder "$home/sky_workdir"; then # the image's cannot be written
    home=$KUBECTL_SKY_FILES/user
    export HOME="$home"
  fi
  folder "$home/sky_workdir" || fail 1 "neither the home directory nor $KUBECTL_SKY_FILES can be written"
}

# Unpacks all files, and goes to where setup and run begin.
bring_files() {
  [ ! -f "$dir/files.txt" ] || while IFS= read -r line; do
    number=${line%% *} place=${line#* }
    case $place in
      "~" | "~/"*) place=$home${place#"~"} ;;
    esac
    folder "$place" || fail 1 "the image's user cannot write to $place; a path below ~/ can always be written"
    echo "$place" > "$KUBECTL_SKY_FILES/wanted-$number"
    if [ -e "$dir/files-$number-000" ]; then
      copy=$KUBECTL_SKY_FILES/copy-$number # the volume may change meanwhile
      cat "$dir/files-$number-"* > "$copy" || fail 1 "no space is left for the files for $place"
      intact "$number" "$copy" || fail 1 "the files for $place are not those that were submitted"
      sh "$dir/unpack.sh" "$number" < "$copy" > /dev/null
      rm -f "$copy"
    fi
    await "$number" "$place"
  done < "$dir/files.txt"
  [ ! -f "$dir/clone.sh" ] || . "$dir/clone.sh"
  # a task that brings nothing begins where its image does
  [ -f "$dir/files.txt" ] || [ -f "$dir/clone.sh" ] || return 0
  cd "$home/sky_workdir" || fail 1 "cannot go to $home/sky_workdir"
}
