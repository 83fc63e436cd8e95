#!/bin/sh
# unpack.sh NUMBER: unpacks files of the task, a gzip'ed tar on stdin, where entry.sh wants them.
# Ends with 75 where entry.sh does not wait yet. Says on stderr why it fails.
set -u
here=$KUBECTL_SKY_FILES
[ ! -e "$here/arrived-$1" ] || exit 0
IFS= read -r place 2> /dev/null < "$here/wanted-$1" || exit 75
mkdir "$here/coming-$1" 2> /dev/null || { echo "the files for $place are being sent already" >&2; exit 1; }

unpack() {
  if command -v tar > /dev/null && command -v gzip > /dev/null; then
    { gzip -dc || : > "$here/damaged-$1"; } | (umask 0 && tar -xof - -C "$place") && [ ! -e "$here/damaged-$1" ]
  elif command -v python3 > /dev/null; then
    umask 0
    python3 -c 'import gzip, sys, tarfile
data = gzip.open(sys.stdin.buffer)
archive = tarfile.open(fileobj=data, mode="r|")
archive.extraction_filter = lambda member, path: member
archive.extractall(sys.argv[1])
while data.read(65536):  # its checksum is at its end
    pass' "$place"
  else
    echo "the image has neither tar and gzip nor python3" >&2
    return 1
  fi
}

unpack "$1" 2> "$here/errors-$1"
code=$?
[ "$code" -ne 0 ] || : > "$here/arrived-$1"
if [ "$code" -ne 0 ]; then
  cat "$here/errors-$1" >&2
  mv "$here/errors-$1" "$here/failed-$1"
fi
rmdir "$here/coming-$1"
exit "$code"
