#!/bin/sh
# unpack.sh NUMBER: unpacks files of the task, a gzip'ed tar on stdin, where entry.sh wants them.
# Says `send` on stdout when it reads, and `arrived` where they are there already. Ends with 75 where
# entry.sh does not ask for them, or somebody else sends them, for long; with 74 where they broke off
# and may be sent again. Says on stderr why it fails.
set -u
here=$KUBECTL_SKY_FILES
looks=0
until [ -e "$here/wanted-$1" ] && mkdir "$here/coming-$1" 2> /dev/null; do
  looks=$((looks + 1))
  [ "$looks" -le 100 ] || exit 75
  sleep 0.2 2> /dev/null || sleep 1
done
IFS= read -r place < "$here/wanted-$1"
if [ -e "$here/arrived-$1" ]; then
  rmdir "$here/coming-$1"
  echo arrived
  exit
elif [ -e "$here/failed-$1" ]; then
  rmdir "$here/coming-$1"
  cat "$here/failed-$1" >&2
  exit 1
fi
echo send

unpack() {
  if command -v tar > /dev/null && command -v gzip > /dev/null; then
    { gzip -dc || { code=$? && [ "$code" -gt 128 ]; } || : > "$here/damaged-$1"; } | (umask 0 && tar -xof - -C "$place")
  elif command -v python3 > /dev/null; then
    umask 0
    python3 -c 'import gzip, sys, tarfile, zlib
data = gzip.open(sys.stdin.buffer)
try:
    archive = tarfile.open(fileobj=data, mode="r|")
    archive.extraction_filter = lambda member, path: member
    archive.extractall(sys.argv[1])
    while data.read(65536):  # its checksum is at its end
        pass
except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.ReadError):
    open(sys.argv[2], "w").close()
except OSError as error:
    sys.exit(str(error))' "$place" "$here/damaged-$1"
  else
    echo "the image has neither tar and gzip nor python3" >&2
    return 1
  fi
}

# Whether it failed because a disk is full, which not every tar says.
full() {
  command -v head > /dev/null || return 1
  head -c 65536 /dev/zero > "$place/.kubectl-sky-$1" 2> /dev/null
  code=$?
  rm -f "$place/.kubectl-sky-$1"
  [ "$code" -ne 0 ]
}

unpack "$1" 2> "$here/errors-$1"
code=$?
if [ -e "$here/damaged-$1" ]; then # it may come again, as a whole
  echo "the files for $place broke off on the way" >&2
  rm -f "$here/damaged-$1"
  code=74
elif [ "$code" -ne 0 ]; then
  { ! full "$1" || echo "no space is left in $place"; cat "$here/errors-$1"; } > "$here/why-$1"
  code=1
  cat "$here/why-$1" >&2
  mv "$here/why-$1" "$here/failed-$1"
else
  : > "$here/arrived-$1"
fi
rmdir "$here/coming-$1"
exit "$code"
