#!/bin/sh
# unpack.sh NUMBER: unpacks an archive (gzipped tar) from stdin into the folder that files.sh requests.
# Prints `send` when it reads stdin, `unpacked` if the archive is unpacked already. Exit codes: 75 if
# files.sh has not requested it or another upload is running, 74 if the upload was interrupted and can be
# retried. Prints the reason of a failure on stderr.
# unpack.sh NUMBER code-cache: unpacks it from the code cache volume, or exits with 75 at once.
#
# State in $KUBECTL_SKY_FILES, one file per archive: requested-NUMBER has the target folder, uploading-NUMBER is
# a lock, failed-NUMBER has the reason, and unpacked-NUMBER marks the end.
set -u
state=$KUBECTL_SKY_FILES
attempts=0
until [ -e "$state/requested-$1" ] && mkdir "$state/uploading-$1" 2> /dev/null; do
  attempts=$((attempts + 1))
  [ "$attempts" -le 100 ] && [ -z "${2-}" ] || exit 75
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

unpack() {
  if command -v tar > /dev/null && command -v gzip > /dev/null; then
    { gzip -dc || { code=$? && [ "$code" -gt 128 ]; } || : > "$state/interrupted-$1"; } | (umask 0 && tar -xof - -C "$target")
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
    sys.exit(str(error))' "$target" "$state/interrupted-$1"
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

# Prints the hash of the tar in a gzipped file.
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

# Other users can change the code cache volume at any time, and create links and pipes there. So these
# functions enter its folder once and never through a link, open a new file once and never through a
# link, and copy an existing file first; the copy is verified and unpacked.

# Changes to the cache folder of the volume. Call it in a subshell.
enter() {
  top=$(cd -P "$state/code-cache" && pwd -P) && cd -P "$top/$cache" && [ "$(pwd -P)" = "$top/$cache" ]
}

# Copies the archive from the volume. Fails if it is not a file, has another hash, or is too long.
load() {
  (
    umask 077
    enter && [ -f "$archive" ] && [ ! -L "$archive" ] || exit 1
    limited=
    ! command -v timeout > /dev/null || limited="timeout 3600"
    $limited head -c "$limit" "$archive" > "$copy" || exit 1
    digest=$(hash_of "$copy")
    [ "${digest%% *}" = "$hash" ] || exit 1
    touch -c "$archive" || : # requires its owner
  ) 2> /dev/null
}

# Copies stdin to stdout, and to the volume if possible.
save() {
  [ -n "$archive" ] || exec cat
  rm -f "$state/uncached-$number"
  (make_folder && enter && [ ! -e "$part" ] && umask 022 && set -C && exec 3> "$part" && exec tee /dev/fd/3) 2> /dev/null ||
    { : > "$state/uncached-$number" && cat; }
}

# Creates the cache folder of the volume, writable for everyone.
make_folder() {
  [ -d "$state/code-cache/$cache" ] || (mkdir "$state/code-cache/$cache" && enter && chmod 1777 .)
}

# Renames a complete archive to its final name, and deletes archives that were not used for 30 days.
publish() (
  enter || exit
  if [ -e "$state/uncached-$number" ] || [ -L "$part" ] || [ -d "$archive" ] || ! mv -f "$part" "$archive"; then
    rm -f "$part"
  fi
  find . -maxdepth 1 -type f -mtime +30 -exec rm -f {} \;
)

number=$1 archive='' uploaded='' cache=.kubectl-sky copy=$state/copy-$1
[ ! -f "${0%/*}/code-cache.txt" ] || while read -r line hash limit; do
  [ "$line" != "$number" ] || break
done < "${0%/*}/code-cache.txt"
if [ "${line-}" = "$number" ]; then
  archive=$hash.tar.gz
  # shellcheck disable=SC3028
  part=.$hash-$POD_IP-${HOSTNAME-}-$$
fi
if [ -n "$archive" ] && load; then
  unpack "$number" < "$copy" 2> "$state/errors-$number"
elif [ -n "${2-}" ]; then
  rm -f "$copy"
  rmdir "$state/uploading-$number"
  exit 75
else
  echo send
  uploaded=1
  save | unpack "$number" 2> "$state/errors-$number"
fi
code=$?
rm -f "$copy"
if [ -e "$state/interrupted-$number" ]; then # the upload can be retried
  : > "$state/uncached-$number"
  echo "upload of the files for $target interrupted" >&2
  rm -f "$state/interrupted-$number"
  code=74
elif [ "$code" -ne 0 ]; then
  : > "$state/uncached-$number"
  { ! full "$number" || echo "no space left in $target"; cat "$state/errors-$number"; } > "$state/message-$number"
  code=1
  cat "$state/message-$number" >&2
  mv "$state/message-$number" "$state/failed-$number"
else
  : > "$state/unpacked-$number"
fi
[ -z "$archive" ] || [ -z "$uploaded" ] || publish 2> /dev/null
rmdir "$state/uploading-$number"
exit "$code"
