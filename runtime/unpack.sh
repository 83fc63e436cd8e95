#!/bin/sh
# unpack.sh NUMBER: unpacks an archive (gzipped tar) from stdin into the folder that files.sh requests.
# Prints `send` when it reads stdin, `arrived` if the node has the archive already. Exit codes: 75 if
# files.sh does not request it or another upload is running, 74 if the upload was interrupted and can be
# retried. Prints the reason of a failure on stderr.
# unpack.sh NUMBER shelf: unpacks it from the code cache volume, or exits with 75 at once.
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
    while data.read(65536):  # the checksum is at the end
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

# Returns whether the disk is full, which not every tar reports.
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

# Other users may change the code cache volume at any time, and put links, pipes or other files there.
# So its folder is entered once and never through a link, a new file is opened once and never through a
# link, and an existing file is copied first; the copy is checked and unpacked.

# Changes to our folder of the volume. Call it in a subshell.
enter() {
  top=$(cd -P "$here/shelf" && pwd -P) && cd -P "$top/$cache" && [ "$(pwd -P)" = "$top/$cache" ]
}

# Copies the archive from the volume. Fails if it is not a file, not the archive, or too long.
fetch() {
  (
    umask 077
    enter && [ -f "$archive" ] && [ ! -L "$archive" ] || exit 1
    command -v timeout > /dev/null && patience="timeout 3600" || patience=
    $patience head -c "$limit" "$archive" > "$copy" || exit 1
    digest=$(hash_of "$copy")
    [ "${digest%% *}" = "$hash" ] || exit 1
    touch -c "$archive" || : # only its owner can
  ) 2> /dev/null
}

# Copies the archive from stdin to stdout, and to the volume if possible.
keep() {
  [ -n "$archive" ] || exec cat
  rm -f "$here/unkept-$number"
  (make_folder && enter && [ ! -e "$part" ] && umask 022 && set -C && exec 3> "$part" && exec tee /dev/fd/3) 2> /dev/null ||
    { : > "$here/unkept-$number" && cat; }
}

# Creates our folder of the volume, writable for everyone.
make_folder() {
  [ -d "$here/shelf/$cache" ] || (mkdir "$here/shelf/$cache" && enter && chmod 1777 .)
}

# Renames a complete archive to its final name, and removes archives that were not used for a month.
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
if [ -e "$here/damaged-$number" ]; then # the upload can be retried
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
