#!/bin/sh
# Downloads a bucket or a URL to $KUBECTL_SKY_SCRATCH/data, a volume of the pod; runs before the task.
# Needs sh; for a URL also curl, wget or python3, for Hugging Face python3.
set -u
umask 0 # the task may run as another user
shown=${KUBECTL_SKY_SOURCE%%\?*} # the query may have a signature
target=$KUBECTL_SKY_SCRATCH/data

fail() { # MESSAGE: what `kubectl sky status` shows as the reason
  echo "$1" >&2
  echo "$1" > /dev/termination-log 2> /dev/null
  exit 1
}

# Prints the last line of an output without time and level.
last() { echo "$1" | sed -n '$s|^[0-9/]* [0-9:]* [A-Z]* *: *||p'; }

from_bucket() {
  command -v "$KUBECTL_SKY_PROGRAM" > /dev/null ||
    fail "the image that copies buckets has no $KUBECTL_SKY_PROGRAM: fetch_image and fetch_program in the settings name another"
  said=$("$KUBECTL_SKY_PROGRAM" --config "" copyto "SRC:$KUBECTL_SKY_LOCATION" "$target" 2>&1) ||
    fail "$shown could not be copied: $(last "$said")"
  [ -e "$target" ] || [ -z "$KUBECTL_SKY_PREFIX" ] || fail "$shown could not be copied: there is nothing of that name"
}

from_web() {
  if command -v curl > /dev/null; then
    said=$(curl --globoff --fail --silent --show-error --location --retry 3 --output "$target" --url "$KUBECTL_SKY_SOURCE" 2>&1)
  elif command -v wget > /dev/null; then
    said=$(wget -q -O "$target" "$KUBECTL_SKY_SOURCE" 2>&1)
  elif command -v python3 > /dev/null; then
    said=$(python3 -c 'import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as source, open(sys.argv[2], "wb") as target:
    shutil.copyfileobj(source, target)' "$KUBECTL_SKY_SOURCE" "$target" 2>&1)
  else
    fail "$shown could not be fetched: the image has none of curl, wget and python3"
  fi || fail "$shown could not be fetched: $(echo "$said" | sed -n '$p')"
}

from_hub() {
  command -v python3 > /dev/null ||
    fail "$shown could not be copied: the image has no python3; stores: {hf: {image: …}} in the settings names another"
  # progress goes to the log
  { said=$(python3 "${0%/*}/hub.py" 2>&1 >&3) || fail "$shown could not be copied: $(echo "$said" | sed -n '$p')"; } 3>&1
}

case $KUBECTL_SKY_SOURCE in
  hf://*) from_hub ;;
  *) if [ -n "${KUBECTL_SKY_PROGRAM-}" ]; then from_bucket; else from_web; fi ;;
esac
[ -e "$target" ] || mkdir "$target" # an empty bucket
echo "copied $shown"
