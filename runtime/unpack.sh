#!/bin/sh
# unpack.sh NUMBER: unpacks files of the task, a gzip'ed tar on stdin, where entry.sh wants them.
# Says `send` on stdout when it reads, and `arrived` where they are there already. Ends with 75 where
# entry.sh does not ask for them, or somebody else sends them, for long; with 74 where they broke off
# and may be sent again. Says on stderr why it fails.
# unpack.sh NUMBER shelf: takes them from the volume that keeps them, or ends with 75 at once.
set -u
here=$KUBECTL_SKY_FILES
looks=0
until [ -e "$here/wanted-$1" ] && mkdir "$here/coming-$1" 2> /dev/null; do
  looks=$((looks + 1))
  [ "$looks" -le 100 ] && [ -z "${2-}" ] || exit 75
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

# Prints the hash of the tar that a file holds.
hash_of() {
  if command -v gzip > /dev/null && command -v sha256sum > /dev/null; then
    { gzip -dc "$1" || echo cut; } | head -c "$limit" | sha256sum
  elif command -v python3 > /dev/null; then
    python3 -c 'import gzip, hashlib, sys
digest, left = hashlib.sha256(), int(sys.argv[2])
with gzip.open(sys.argv[1]) as data:
    for block in iter(lambda: data.read(min(left, 1 << 20)), b""):
        digest.update(block)
        left -= len(block)
print(digest.hexdigest())' "$1" "$limit"
  fi
}

# The code cache volume belongs to others too, who may change it at any time: put links, pipes or other
# files there. So its folder is entered once and never through a link, a new file is opened once
# and never through a link, and an existing file is copied first, checked and unpacked as a copy.

# Goes to our folder of the volume. Changes the folder: call it in a subshell.
enter() {
  top=$(cd -P "$here/shelf" && pwd -P) && cd -P "$top/$cache" && [ "$(pwd -P)" = "$top/$cache" ]
}

# Copies the archive from the volume. Fails if that is no file, not the archive, or has no end.
fetch() {
  (
    umask 077
    enter && [ -f "$archive" ] && [ ! -L "$archive" ] || exit 1
    command -v timeout > /dev/null && patience="timeout 3600" || patience=
    $patience head -c "$limit" "$archive" > "$copy" || exit 1
    digest=$(hash_of "$copy")
    [ "${digest%% *}" = "$hash" ] || exit 1
    touch -c "$archive" || : # only its owner may
  ) 2> /dev/null
}

# Passes the archive from stdin to stdout, and writes it to the volume if that is possible.
keep() {
  [ -n "$archive" ] || exec cat
  rm -f "$here/unkept-$number"
  (make_folder && enter && [ ! -e "$part" ] && umask 022 && set -C && exec 3> "$part" && exec tee /dev/fd/3) 2> /dev/null ||
    { : > "$here/unkept-$number" && cat; }
}

# Makes our folder of the volume, for everybody.
make_folder() {
  [ -d "$here/shelf/$cache" ] || (mkdir "$here/shelf/$cache" && enter && chmod 1777 .)
}

# Shows the others what was written, if it is complete, and removes what nobody used for a month.
publish() (
  enter || exit
  if [ -e "$here/unkept-$number" ] || [ -L "$part" ] || [ -d "$archive" ] || ! mv -f "$part" "$archive"; then
    rm -f "$part"
  fi
  find . -maxdepth 1 -type f -mtime +30 -exec rm -f {} \;
)

number=$1 archive='' sent='' cache=.kubectl-sky copy=$here/copy-$1
[ ! -f "${0%/*}/shelf.txt" ] || while read -r line hash limit; do
  [ "$line" != "$number" ] || break
done < "${0%/*}/shelf.txt"
if [ "${line-}" = "$number" ]; then
  archive=$hash.tar.gz
  part=.$hash-$POD_IP-${HOSTNAME-}-$$
fi
if [ -n "$archive" ] && fetch; then
  unpack "$number" < "$copy" 2> "$here/errors-$number"
elif [ -n "${2-}" ]; then
  rm -f "$copy"
  rmdir "$here/coming-$number"
  exit 75
else
  echo send
  sent=1
  keep | unpack "$number" 2> "$here/errors-$number"
fi
code=$?
rm -f "$copy"
if [ -e "$here/damaged-$number" ]; then # it may come again, as a whole
  : > "$here/unkept-$number"
  echo "the files for $place broke off on the way" >&2
  rm -f "$here/damaged-$number"
  code=74
elif [ "$code" -ne 0 ]; then
  : > "$here/unkept-$number"
  { ! full "$number" || echo "no space is left in $place"; cat "$here/errors-$number"; } > "$here/why-$number"
  code=1
  cat "$here/why-$number" >&2
  mv "$here/why-$number" "$here/failed-$number"
else
  : > "$here/arrived-$number"
fi
[ -z "$archive" ] || [ -z "$sent" ] || publish 2> /dev/null
rmdir "$here/coming-$number"
exit "$code"
