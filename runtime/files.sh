# Unpacks the local files of the task or clones its repository. Part of entry.sh.
# files.txt has one line per archive: its number and the folder to unpack it in.

# Waits until the client has uploaded an archive. The time is limited only while no client is connected:
# uploading-NUMBER exists during an upload, and a client that is busy with other uploads creates the file client.
wait_for_upload() { # NUMBER FOLDER
  [ -e "$KUBECTL_SKY_FILES/unpacked-$1" ] || [ -e "$KUBECTL_SKY_FILES/failed-$1" ] ||
    say "waiting for the upload of the files for $2"
  upload_timeout=${KUBECTL_SKY_FILES_TIMEOUT:-300}
  deadline=$(($(date +%s) + upload_timeout))
  while [ ! -e "$KUBECTL_SKY_FILES/unpacked-$1" ]; do
    if [ -e "$KUBECTL_SKY_FILES/failed-$1" ]; then
      IFS= read -r reason < "$KUBECTL_SKY_FILES/failed-$1"
      fail 1 "the files for $2 could not be unpacked: $reason"
    elif [ -e "$KUBECTL_SKY_FILES/uploading-$1" ] || [ -e "$KUBECTL_SKY_FILES/client" ]; then
      rm -f "$KUBECTL_SKY_FILES/client"
      deadline=$(($(date +%s) + upload_timeout)) # an interrupted upload is retried
    elif [ "$(date +%s)" -ge "$deadline" ]; then
      fail 1 "upload of the files for $2 timed out after $upload_timeout s: no client connected; submit the task again"
    fi
    nap
  done
}

unpack() { # NUMBER FOLDER
  folder "$2" || fail 1 "the image's user cannot write to $2; use a path below ~/"
  case $2 in "$KUBECTL_SKY_FILES"/*) ;; *) rm -f "$KUBECTL_SKY_FILES/unpacked-$1" ;; esac # unpacked in an earlier container
  echo "$2" > "$KUBECTL_SKY_FILES/requested-$1"
  if [ -e "$dir/files-$1-000" ]; then
    cat "$dir/files-$1-"* | sh "$dir/unpack.sh" "$1" > /dev/null
  fi
  wait_for_upload "$1" "$2"
}

await files
# Delete the state of an earlier container of the pod.
rm -f "$KUBECTL_SKY_FILES"/requested-* "$KUBECTL_SKY_FILES"/failed-*
rmdir "$KUBECTL_SKY_FILES"/uploading-* 2> /dev/null
[ ! -f "$dir/files.txt" ] || while IFS= read -r line; do
  target=${line#* }
  case $target in
    "~" | "~/"*) target=$home${target#"~"} ;;
  esac
  unpack "${line%% *}" "$target"
done < "$dir/files.txt"
[ ! -f "$dir/repository.txt" ] || . "$dir/clone.sh"
