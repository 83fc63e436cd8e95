# Unpacks the task's local files or clones its repository, then goes to ~/sky_workdir. Part of entry.sh.
# files.txt has one line per archive: its number and the folder to unpack it in.

# Unpacks an archive from the code cache volume, if the volume has it.
unpack_from_volume() { # NUMBER
  [ -f "$dir/shelf.txt" ] || return 0
  sh "$dir/unpack.sh" "$1" shelf > /dev/null 2>&1 &
  wait "$!" # signals interrupt it
}

# Waits until the client has uploaded an archive.
wait_for_upload() { # NUMBER FOLDER
  [ -e "$KUBECTL_SKY_FILES/arrived-$1" ] || unpack_from_volume "$1"
  [ -e "$KUBECTL_SKY_FILES/arrived-$1" ] || [ -e "$KUBECTL_SKY_FILES/failed-$1" ] ||
    say "waiting for files from the machine that submitted the task"
  upload_timeout=${KUBECTL_SKY_FILES_TIMEOUT:-600}
  deadline=$(($(date +%s) + upload_timeout))
  while [ ! -e "$KUBECTL_SKY_FILES/arrived-$1" ]; do
    if [ -e "$KUBECTL_SKY_FILES/failed-$1" ]; then
      IFS= read -r reason < "$KUBECTL_SKY_FILES/failed-$1"
      fail 1 "the files for $2 could not be unpacked: $reason"
    elif [ -e "$KUBECTL_SKY_FILES/coming-$1" ]; then
      deadline=$(($(date +%s) + upload_timeout)) # an interrupted upload is retried
    elif [ "$(date +%s)" -ge "$deadline" ]; then
      fail 1 "no files came for $2 in $upload_timeout seconds: what submitted the task has gone; submit it again"
    fi
    unpack_from_volume "$1"
    nap
  done
}

# Returns whether an archive is the submitted one: anyone may have created a ConfigMap with its name
# before. Archives in a Secret have no digest.
verify() { # NUMBER FILE
  expected=
  [ ! -f "$dir/digests.txt" ] || while read -r number digest; do
    [ "$number" != "$1" ] || expected=$digest
  done < "$dir/digests.txt"
  [ -n "$expected" ] || return 0
  if command -v sha256sum > /dev/null; then
    actual=$(sha256sum < "$2")
  elif command -v python3 > /dev/null; then
    actual=$(python3 -c 'import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' < "$2")
  else
    fail 1 "the image has neither sha256sum nor python3 to check the files with"
  fi
  [ "${actual%% *}" = "$expected" ]
}

unpack() { # NUMBER FOLDER
  folder "$2" || fail 1 "the image's user cannot write to $2; a path below ~/ can always be written"
  case $2 in "$KUBECTL_SKY_FILES"/*) ;; *) rm -f "$KUBECTL_SKY_FILES/arrived-$1" ;; esac # in a folder of an earlier container
  echo "$2" > "$KUBECTL_SKY_FILES/wanted-$1"
  if [ -e "$dir/files-$1-000" ]; then
    copy=$KUBECTL_SKY_FILES/copy-$1 # the volume may change meanwhile
    cat "$dir/files-$1-"* > "$copy" || fail 1 "no space is left for the files for $2"
    verify "$1" "$copy" || fail 1 "the files for $2 are not those that were submitted"
    sh "$dir/unpack.sh" "$1" < "$copy" > /dev/null
    rm -f "$copy"
  fi
  wait_for_upload "$1" "$2"
}

# The volume of an earlier container that was restarted.
rm -f "$KUBECTL_SKY_FILES"/wanted-* "$KUBECTL_SKY_FILES"/failed-*
rmdir "$KUBECTL_SKY_FILES"/coming-* 2> /dev/null
[ ! -f "$dir/files.txt" ] || while IFS= read -r line; do
  target=${line#* }
  case $target in
    "~" | "~/"*) target=$home${target#"~"} ;;
  esac
  unpack "${line%% *}" "$target"
done < "$dir/files.txt"
[ ! -f "$dir/repository.txt" ] || . "$dir/clone.sh"
cd "$home/sky_workdir" || fail 1 "cannot go to $home/sky_workdir"
