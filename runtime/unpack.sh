#!/bin/sh
# unpack.sh NUMBER: unpacks an archive (gzipped tar) from stdin into the folder that files.sh requests.
# Prints `send` when it reads stdin, `unpacked` if the archive is unpacked already. Exit codes: 75 if
# files.sh has not requested it or another upload is running, 74 if the upload was interrupted and can be
# retried. Prints the reason of a failure on stderr.
#
# State in $KUBECTL_SKY_FILES, one file per archive: requested-NUMBER has the target folder, uploading-NUMBER is
# a lock, failed-NUMBER has the reason, and unpacked-NUMBER marks the end.
set -u
state=${KUBECTL_SKY_FILES-/kubectl-sky}
attempts=0
until [ -e "$state/requested-$1" ] && mkdir "$state/uploading-$1" 2> /dev/null; do
  attempts=$((attempts + 1))
  [ "$attempts" -le 100 ] || exit 75
  sleep 0.2 2> /dev/null || sleep 1
done
IFS= read -r target < "$state/requested-$1"
if [ -e "$state/unpacked-$1" ]; then
  rmdir "$state/uploading-$1"
  echo unpacked
  exit
elif [ -e "$state/failed-$1" ]; then
  rmdir "$state/uploading-$1"
  cat "$state/failed-$1" >&2
  exit 1
fi

# Moves the files that a bucket's folder lacks into it. It keeps the others: this task may have written them before a restart.
merge() { # FOLDER
  (umask 0 && cd "$1" && find . ! -type d > "$state/list-$number" && while IFS= read -r file; do
    [ ! -e "$target/$file" ] && [ ! -L "$target/$file" ] || continue
    mkdir -p "$target/${file%/*}" && mv "$file" "$target/$file" || exit 1
  done < "$state/list-$number")
}

unpack() { # NUMBER FOLDER
  if command -v tar > /dev/null && command -v gzip > /dev/null; then
    { gzip -dc || { code=$? && [ "$code" -gt 128 ]; } || : > "$state/interrupted-$1"; } | (umask 0 && tar -xof - -C "$2")
  elif command -v python3 > /dev/null; then
    umask 0
    python3 -c 'import gzip, sys, tarfile, zlib
data = gzip.open(sys.stdin.buffer)
try:
    archive = tarfile.open(fileobj=data, mode="r|")
    archive.extraction_filter = lambda member, path: member
    archive.extractall(sys.argv[1])
    while data.read(65536):  # the checksum is at the end
        pass
except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.ReadError):
    open(sys.argv[2], "w").close()
except OSError as error:
    sys.exit(str(error))' "$2" "$state/interrupted-$1"
  else
    echo "the image has neither tar and gzip nor python3" >&2
    return 1
  fi
}

# Returns whether the disk is full, which not every tar reports.
full() {
  command -v head > /dev/null || return 1
  head -c 65536 /dev/zero > "$target/.kubectl-sky-$1" 2> /dev/null
  code=$?
  rm -f "$target/.kubectl-sky-$1"
  [ "$code" -ne 0 ]
}

number=$1
echo send
case " ${KUBECTL_SKY_KEEP-} " in
  *" $number "*)
    {
      rm -rf "$state/new-$number" && mkdir "$state/new-$number" && unpack "$number" "$state/new-$number" &&
        { [ -e "$state/interrupted-$number" ] || merge "$state/new-$number"; }
    } 2> "$state/errors-$number"
    code=$?
    rm -rf "$state/new-$number"
    ;;
  *)
    unpack "$number" "$target" 2> "$state/errors-$number"
    code=$?
    ;;
esac
if [ -e "$state/interrupted-$number" ]; then # the upload can be retried
  echo "upload of the files for $target interrupted" >&2
  rm -f "$state/interrupted-$number"
  code=74
elif [ "$code" -ne 0 ]; then
  { ! full "$number" || echo "no space left in $target"; cat "$state/errors-$number"; } > "$state/message-$number"
  code=1
  cat "$state/message-$number" >&2
  mv "$state/message-$number" "$state/failed-$number"
else
  : > "$state/unpacked-$number"
fi
rmdir "$state/uploading-$number"
exit "$code"
