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
    { gzip -dc "$1" || echo cut; } | sha256sum
  elif command -v python3 > /dev/null; then
    python3 -c 'import gzip, hashlib, sys
seen = hashlib.sha256()
with gzip.open(sys.argv[1]) as data:
    while block := data.read(1 << 20):
        seen.update(block)
print(seen.hexdigest())' "$1"
  fi
}

# Whether the volume has them, and they are what they should be, whoever put them there.
kept() {
  [ -f "$shelf" ] || return 1
  found=$(hash_of "$shelf" 2> /dev/null)
  [ "${found%% *}" = "$hash" ] || return 1
  touch -c "$shelf" 2> /dev/null || : # only its owner may
}

# Passes them on, and puts them into the volume, where that is possible.
keep() {
  rm -f "$here/unkept-$number" "$part"
  if [ -n "$shelf" ] && command -v tee > /dev/null && open_shelf 2> /dev/null; then
    tee "$part" 2> /dev/null || : > "$here/unkept-$number"
  else
    cat
  fi
}

# A folder of our own in the volume, for everybody.
open_shelf() { [ -d "${shelf%/*}" ] || { mkdir "${shelf%/*}" && chmod 1777 "${shelf%/*}"; }; }

# What has come as a whole is there for others; what nobody has wanted for a month goes.
put() {
  [ ! -e "$here/unkept-$number" ] && chmod 644 "$part" && mv "$part" "$shelf" || rm -f "$part"
  find "${shelf%/*}/" -maxdepth 1 -type f -mtime +30 -exec rm -f {} \;
}

number=$1 shelf='' part='' taken=''
[ ! -f "${0%/*}/shelf.txt" ] || while read -r one hash; do
  [ "$one" != "$number" ] || break
done < "${0%/*}/shelf.txt"
if [ "${one-}" = "$number" ]; then
  shelf=$here/shelf/.kubectl-sky/$hash.tar.gz
  part=$here/shelf/.kubectl-sky/.$hash-$POD_IP-${HOSTNAME-}-$$
fi
if [ -n "$shelf" ] && kept; then
  taken=1
  cat "$shelf" 2> /dev/null | unpack "$number" 2> "$here/errors-$number"
elif [ -n "${2-}" ]; then
  rmdir "$here/coming-$number"
  exit 75
else
  echo send
  keep | unpack "$number" 2> "$here/errors-$number"
fi
code=$?
if [ -e "$here/damaged-$number" ]; then # it may come again, as a whole
  [ -z "$taken" ] || rm -f "$shelf" 2> /dev/null
  echo "the files for $place broke off on the way" >&2
  rm -f "$here/damaged-$number" "$part"
  code=74
elif [ "$code" -ne 0 ]; then
  rm -f "$part"
  { ! full "$number" || echo "no space is left in $place"; cat "$here/errors-$number"; } > "$here/why-$number"
  code=1
  cat "$here/why-$number" >&2
  mv "$here/why-$number" "$here/failed-$number"
else
  : > "$here/arrived-$number"
  [ ! -f "$part" ] || put 2> /dev/null
fi
rmdir "$here/coming-$number"
exit "$code"
