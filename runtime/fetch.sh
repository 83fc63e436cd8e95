#!/bin/sh
# Downloads a bucket or a URL to $KUBECTL_SKY_SCRATCH/data, a volume of the pod, before the task starts.
# Needs sh; for a URL also curl, wget or python3, for Hugging Face python3.
set -u
umask 0 # the task may run as another user
source=${KUBECTL_SKY_SOURCE%%\?*} # for messages: the query may be a signature
target=$KUBECTL_SKY_SCRATCH/data

fail() { # MESSAGE [CODE]: "kubectl sky status" shows it as the reason; after 78, no restart follows
  echo "$1" >&2
  echo "$1" > /dev/termination-log 2> /dev/null
  exit "${2-1}"
}

# Fails for good if the store answers that it has no such bucket, or that the key may not. Not if it says so of one file, which
# another task may have deleted, or if a request took too long.
fail_copy() { # EXIT_CODE OUTPUT
  code=1
  case $2 in
    *": Failed to copy: "* | *Timeout*) ;;
    *"StatusCode: 40"[0134]* | *"Error 40"[0134]* | *"RESPONSE 40"[0134]* | *"directory not found"*) code=78 ;;
  esac
  fail "$source could not be copied: $(cause "$1" "$2")" "$code"
}

# Prints the last message of a program, without the time, level and request of rclone, or else its exit code.
cause() { # EXIT_CODE LOG
  message=$(printf '%s\n' "$2" | sed 's|^[0-9/]\{10\} [0-9:]* [A-Z]* *: *||; s|https response error [^,]*, RequestID: [^,]*, HostID: [^,]*, ||; /[^[:space:]]/h; $!d; x')
  echo "${message:-exit code $1}"
}

# Replaces a subshell by rclone, which tries a request of a store that cannot be reached for 3 minutes by default.
copier() { exec "$KUBECTL_SKY_PROGRAM" --config "" --contimeout 15s --timeout 1m --low-level-retries 1 --retries-sleep 2s "$@"; }

from_bucket() {
  command -v "$KUBECTL_SKY_PROGRAM" > /dev/null ||
    fail "the image that copies buckets has no $KUBECTL_SKY_PROGRAM: set fetch_image or fetch_program in the settings" 78
  if [ -n "${KUBECTL_SKY_SYNC-}" ]; then
    download
    return
  fi
  output=$(copier copyto "SRC:$KUBECTL_SKY_LOCATION" "$target" 2>&1) || fail_copy $? "$output"
  [ -e "$target" ] || [ -z "$KUBECTL_SKY_PREFIX" ] || fail "$source could not be copied: not found" 78
}

from_web() {
  if command -v curl > /dev/null; then
    output=$(curl --globoff --fail --silent --show-error --location --retry 3 --output "$target" --url "$KUBECTL_SKY_SOURCE" 2>&1)
  elif command -v wget > /dev/null; then
    output=$(wget -q -O "$target" "$KUBECTL_SKY_SOURCE" 2>&1)
  elif command -v python3 > /dev/null; then
    output=$(python3 -c 'import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as source, open(sys.argv[2], "wb") as target:
    shutil.copyfileobj(source, target)' "$KUBECTL_SKY_SOURCE" "$target" 2>&1)
  else
    fail "$source could not be fetched: the image has none of curl, wget and python3"
  fi || fail "$source could not be fetched: $(cause $? "$output")"
}

from_hub() {
  command -v python3 > /dev/null ||
    fail "$source could not be copied: the image has no python3; set another in the settings: stores: {hf: {image: …}}"
  # stdout, the progress, goes to the log
  { output=$(python3 "${0%/*}/hub.py" 2>&1 >&3) || fail "$source could not be copied: $(cause $? "$output")"; } 3>&1
}

[ -z "${KUBECTL_SKY_SYNC-}" ] || . "${0%/*}/sync.sh"
[ "${1-}" != sync ] || run_sidecar
case $KUBECTL_SKY_SOURCE in
  hf://*) from_hub ;;
  *) if [ -n "${KUBECTL_SKY_PROGRAM-}" ]; then from_bucket; else from_web; fi ;;
esac
[ -e "$target" ] || mkdir "$target" # an empty bucket
echo "copied $source"
