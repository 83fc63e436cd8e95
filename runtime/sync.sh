# Keeps the folder of a bucket in sync. Part of fetch.sh, which downloads the folder first; a sidecar then writes new and
# changed files back: every minute, when the task ends, and on SIGTERM. Needs awk, cut, find, sed and stat.
# In $KUBECTL_SKY_SCRATCH: the folder data, and sync/known, which lists what the bucket has as "ctime;mtime;size;name".
# In sync/, which the task sees: its request "ended", the reply "answer", "message", and "alive", which changes during a copy.
state=$KUBECTL_SKY_SCRATCH/sync
limit=10000000000 # bytes
interval=60 # seconds
stopping=

nap() { sleep 0.5 2> /dev/null || sleep 1; }

# Creates the bucket if it may, and limits what is downloaded.
before_download() {
  output=$(copier size --json "SRC:$KUBECTL_SKY_LOCATION" 2>&1)
  code=$?
  if [ "$code" -eq 3 ] && [ -n "${KUBECTL_SKY_CREATE-}" ]; then
    output=$(copier mkdir "SRC:$KUBECTL_SKY_CREATE" 2>&1) || fail "$source could not be created: $(cause $? "$output")"
    echo "created $source"
    return
  fi
  [ "$code" -eq 0 ] || fail "$source could not be copied: $(cause "$code" "$output")"
  bytes=$(echo "$output" | sed -n 's/.*"bytes":\([0-9]*\).*/\1/p')
  [ "$KUBECTL_SKY_SYNC" = "any size" ] || [ "${bytes:-0}" -le "$limit" ] ||
    fail "$source has $(echo ";;$bytes;" | total | sed 's/.*, //'), and all of it would be downloaded: name a subfolder, or use --bucket-mode copy; --bucket-mode sync has no limit of 10 GB"
}

after_download() {
  [ -d "$target" ] || fail "$source is a file, and only folders are synced: use mode: COPY"
  mkdir -p "$state" && list > "$state/known" || fail "$source could not be copied: its files cannot be listed"
}

# Lists the files as the disk has them. Names are written as rclone reads them: control characters as symbols, and links with
# a suffix.
list() {
  (cd "$target" && for type in f l; do find . -type "$type" -exec stat -c "//$type;%Z;%Y;%s;%n" {} +; done) 2> "$state/unread" |
    LC_ALL=C awk -F ';' '
    function finish() {
      if (name == "") return
      gsub(/\342\200\233/, "&&", name) # what rclone writes before a symbol that is meant
      gsub(/\342\220[\200-\237\241]|\357\274\217/, "\342\200\233&", name)
      for (code = 1; name ~ /[\001-\037\177]/; code = code == 31 ? 127 : code + 1)
        gsub(sprintf("%c", code), "\342\220" sprintf("%c", code == 127 ? 161 : 128 + code), name)
      print facts substr(name, 3) (link ? ".rclonelink" : "")
    }
    /^\/\// { # no path has that, even if a name has line feeds
      finish()
      link = $1 == "//l"
      facts = $2 ";" $3 ";" $4 ";"
      name = $0
      sub(/^[^.]*/, "", name)
      next
    }
    { name = name "\n" $0 }
    END { finish() }'
  ! grep -v 'No such file' "$state/unread" >&2 # a file that is deleted meanwhile is none
}

# Prints the number and size of the listed files.
total() {
  awk -F ';' '{ bytes += $3 } END {
    split("bytes kB MB GB TB", units, " ")
    for (unit = 1; bytes >= 1000 && unit < 5; unit++) bytes /= 1000
    printf(unit == 1 ? "%d file%s, %d %s\n" : "%d file%s, %.1f %s\n", NR, NR == 1 ? "" : "s", bytes, units[unit]) }'
}

# Moves what rclone says that it has copied from the list left to the list known. A file that has changed in the second in
# which it was listed may change again without another ctime: it is marked, and copied once more.
settle() {
  sed -n 's|^[0-9/]* [0-9:]* INFO *: \(.*\): \(Multi-thread \)\{0,1\}Copied (.*|\1|p' "$state/log" > "$state/copied"
  : > "$state/left.new"
  : > "$state/known.new"
  awk -F ';' -v at="$listed_at" -v known="$state/known.new" -v left="$state/left.new" '
    FILENAME ~ /copied$/ { copied[$0]; next }
    FILENAME ~ /known$/ { is_known[$0]; next }
    { name = $0; sub(/^[^;]*;[^;]*;[^;]*;/, "", name) }
    $0 in is_known { print > known; next }
    name in copied { print ($1 >= at ? "changes;" : "") $0 > known; next }
    { print > left }
    ' "$state/copied" "$state/known" "$state/now"
  mv "$state/left.new" "$state/left"
  put alive "$(date +%s) $(total < "$state/left")"
}

# Writes all new and changed files back. Fails if any is left; a file that changes meanwhile is the next call's.
write_back() {
  : > "$state/log"
  listed=yes
  listed_at=$(date +%s)
  list > "$state/now" 2> "$state/errors" || { listed='' && problem=$(cause $? "$(cat "$state/errors")"); }
  settle
  [ ! -s "$state/left" ] || copy_left
  [ ! -s "$state/left" ] && [ -n "$listed" ]
}

copy_left() {
  cut -d ';' -f 4- "$state/left" > "$state/names"
  (
    export RCLONE_CONFIG_SRC_NO_CHECK_BUCKET=true RCLONE_CONFIG_SRC_NO_CHECK_CONTAINER=true # needs a right to create it
    copier copy --links --local-encoding Raw --files-from-raw "$state/names" --no-traverse --no-check-dest --retries 1 --transfers 8 \
      --verbose --stats 10s --stats-one-line "$target" "SRC:$KUBECTL_SKY_LOCATION"
  ) > "$state/log" 2>&1 &
  progress='' since=$(date +%s)
  while kill -0 "$!" 2> /dev/null; do
    settle
    now="$(wc -c < "$state/left") $(sed -n 's|^.* INFO *: *\([0-9.]* [kMGTP]*i*B /\).*|\1|p' "$state/log" | tail -n 1)"
    [ "$now" = "$progress" ] || since=$(date +%s)
    progress=$now
    if [ $(($(date +%s) - since)) -ge 60 ]; then
      kill "$!"
      stuck=yes # another try would take as long
    fi
    nap
  done
  wait "$!"
  problem=$(cause $? "$(sed '/ INFO /d' "$state/log")")
  settle
  mv "$state/known.new" "$state/known"
  [ -s "$state/left" ] && list > "$state/now" 2> /dev/null || return
  awk '{ name = $0; sub(/^[^;]*;[^;]*;[^;]*;/, "", name) } FILENAME ~ /now$/ { exists[name]; next } name in exists' \
    "$state/now" "$state/left" > "$state/left.new" # without those that are deleted by now
  mv "$state/left.new" "$state/left"
}

# Prints what is not written back, and why.
unwritten() {
  if [ -s "$state/left" ]; then
    others=$(($(wc -l < "$state/left") - 1))
    [ "$others" = 0 ] && others='' || others=" and $others more"
    echo "$(total < "$state/left") not written back to $source ($(sed -n '1s/^[^;]*;[^;]*;[^;]*;//p' "$state/left")$others): $problem"
  else
    echo "the files for $source cannot be listed: $problem"
  fi
}

put() { echo "$2" > "$state/$1.new" && mv "$state/$1.new" "$state/$1"; } # NAME TEXT

# Writes back at the end of the task, and answers it.
finish() {
  stuck=
  for attempt in 1 2 3; do
    answer=
    ! write_back || break
    answer=$(unwritten)
    [ "$attempt" != 3 ] && [ -z "$stuck" ] || break
    sleep 2
  done
  [ -z "$answer" ] || echo "$answer"
  put answer "$answer"
  rm -f "$state/ended"
}

run_sidecar() {
  trap 'stopping=1' TERM INT
  next=$(($(date +%s) + interval))
  while [ -z "$stopping" ]; do
    if [ -e "$state/ended" ]; then
      finish
    elif [ "$(date +%s)" -ge "$next" ]; then
      write_back || put message "$(unwritten); the next try is in a minute"
      next=$(($(date +%s) + interval))
    fi
    nap
  done
  finish
  exit
}
