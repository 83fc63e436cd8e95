# Keeps the folder of a bucket in sync. Part of fetch.sh, which downloads the folder first; a sidecar then writes new and
# changed files back: every minute, when the task ends, and on SIGTERM. Needs awk, cut, df, find, sed, sort, stat, tail and wc.
# In $KUBECTL_SKY_SCRATCH: the folder data, and sync/known, which lists what the node and the bucket have as
# "ctime;mtime;size;name". The lists of the bucket have ";time of upload;size;name".
# In sync/, which the task sees: its request "ended", the reply "answer", "message", "summary", and "alive", which changes
# during a copy.
# KUBECTL_SKY_SYNC is what to download: all, newest or none; KUBECTL_SKY_INCLUDE has a pattern on each line.
state=$KUBECTL_SKY_SCRATCH/sync
interval=60 # seconds
stopping=
incomplete="a list is incomplete: the disk may be full"

nap() { sleep 0.5 2> /dev/null || sleep 1; }

# Downloads what the task needs to go on, and creates the bucket if it may.
download() {
  if [ -e "$state/known" ]; then # after a restart of the cluster node: the files here are newer
    echo "$source was copied before"
    exit
  fi
  version=$(copier version 2> /dev/null | sed -n '1s/^rclone v1\.\([0-9]*\).*/\1/p')
  [ "${version:-65}" -ge 65 ] || fail "rclone 1.$version is too old: set a fetch_image with rclone 1.65 or newer in the settings" 78
  mkdir -p "$state" "$target"
  printf '%s\n' "${KUBECTL_SKY_INCLUDE-}" > "$state/include"
  case $(copier lsjson --stat "SRC:$KUBECTL_SKY_LOCATION" 2> /dev/null) in
    *'"IsDir": false'*) fail "$source is a file, and only folders are synced: use mode: COPY" 78 ;;
  esac
  printf '' > "$state/bucket"
  list_bucket bucket 2> "$state/errors"
  code=$?
  if [ "$code" -eq 3 ] && [ -n "${KUBECTL_SKY_CREATE-}" ]; then
    output=$(copier mkdir "SRC:$KUBECTL_SKY_CREATE" 2>&1) || fail "$source could not be created: $(cause $? "$output")"
    echo "created $source"
  elif [ "$code" -ne 0 ]; then
    fail_copy "$code" "$(cat "$state/errors")"
  fi
  choose
  [ ! -s "$state/wanted" ] || download_wanted
  : > "$state/gone"
  errors=$(list now) || fail "$source could not be copied: its files cannot be listed: $errors"
  [ ! -s "$state/skipped" ] ||
    put message "$source: $(total < "$state/wanted") downloaded; $(total < "$state/skipped") only in the bucket"
  cp "$state/now" "$state/known.new" && mv "$state/known.new" "$state/known"
}

# Lists the bucket, newest first, with the names that rclone prints. The times are those of the uploads: for others, rclone
# sends a request per file to S3.
list_bucket() { # LIST OPTION...
  name=$1
  shift
  (copier lsf --recursive --files-only --use-server-modtime --format tsp --separator ';' "$@" "SRC:$KUBECTL_SKY_LOCATION") > "$state/lines" ||
    return
  LC_ALL=C sort -r "$state/lines" > "$state/sorted" || return
  sed 's/^/;/' "$state/sorted" > "$state/$name"
}

# Writes the lists wanted and skipped.
choose() {
  if [ -z "${KUBECTL_SKY_INCLUDE-}" ]; then
    cp "$state/bucket" "$state/matching"
  else
    list_bucket matching --include-from "$state/include" 2> "$state/errors" || fail_copy $? "$(cat "$state/errors")"
  fi
  room=$(df -P -k "$KUBECTL_SKY_SCRATCH" | awk -v limit="${KUBECTL_SKY_DISK:-0}" '
    NR == 2 { room = $4 * 1024; printf("%.0f", limit && limit < room ? limit : room) }')
  bytes=$(awk -F ';' '{ bytes += $3 } END { printf("%.0f", bytes) }' "$state/matching")
  [ "$KUBECTL_SKY_SYNC" != all ] || [ "$bytes" -le "$room" ] ||
    fail "$source has $(size_of "$bytes") to download, and the disk has room for $(size_of "$room"): set download: newest in config.kubectl_sky.sync" 78
  awk -F ';' -v mode="$KUBECTL_SKY_SYNC" -v room="$room" '
    { sum += $3; if (mode == "none" || (mode == "newest" && sum > room / 2)) exit; print }' "$state/matching" > "$state/wanted"
  awk 'FILENAME ~ /wanted$/ { wanted[$0]; next } !($0 in wanted)' "$state/wanted" "$state/bucket" > "$state/skipped"
}

download_wanted() {
  list_names wanted || fail "$source could not be copied: $incomplete"
  output=$(copier copy --links --files-from-raw "$state/names" "SRC:$KUBECTL_SKY_LOCATION" "$target" 2>&1) ||
    fail "$source could not be copied: $(cause $? "$output")" # a restart may help: it lists the bucket anew
}

size_of() { echo ";;$1;" | total | sed 's/.*, //'; } # BYTES

# Writes the names in a list to the list names.
list_names() { # LIST
  cut -d ';' -f 4- "$state/$1" > "$state/names"
  [ "$(wc -l < "$state/names")" = "$(wc -l < "$state/$1")" ]
}

# Replaces a list by its new one if that has all lines. A full disk cuts it, and not every awk fails then.
replace() { # LIST LINES
  [ "$(wc -l < "$state/$1.new")" = "$2" ] && mv "$state/$1.new" "$state/$1"
}

# Lists the files as the disk has them. Names are written as rclone reads them: control characters as symbols, and links with
# a suffix. If some cannot be listed, it prints why, and fails.
list() { # LIST
  output=$(
    exec 2>&1
    cd "$target" || exit
    {
      for type in f l; do
        find . -type "$type" -exec stat -c "//$type;%Z;%Y;%s;%n" {} +
        [ $? -le 1 ] || exit # it was killed; 1: for one file
      done
      echo "//end"
    } | LC_ALL=C awk -F ';' -v file="$state/$1.new" '
    function finish() {
      if (name == "") return
      gsub(/\342\200\233/, "&&", name) # what rclone writes before a symbol that is meant
      gsub(/\342\220[\200-\237\241]|\357\274\217/, "\342\200\233&", name)
      for (code = 1; name ~ /[\001-\037\177]/; code = code == 31 ? 127 : code + 1)
        gsub(sprintf("%c", code), "\342\220" sprintf("%c", code == 127 ? 161 : 128 + code), name)
      print facts substr(name, 3) (link ? ".rclonelink" : "") > file
      lines++
    }
    BEGIN { printf("") > file }
    /^\/\// { # no path has that, even if a name has line feeds
      finish()
      link = $1 == "//l"
      facts = $2 ";" $3 ";" $4 ";"
      name = $0
      sub(/^[^.]*/, "", name)
      complete = $0 == "//end"
      next
    }
    { name = name "\n" $0 }
    END { if (complete) print lines + 0 }'
  )
  output=$(printf '%s\n' "$output" | sed '/\.\/.*No such file/d') # a file that is deleted meanwhile is none
  if ! replace "$1" "$(printf '%s\n' "$output" | tail -n 1)"; then
    printf '%s\n' "$incomplete" "$output" | sed '/^[0-9]*$/d'
    return 1
  fi
  printf '%s\n' "$output" | sed '$d'
  [ "$output" = "$(wc -l < "$state/$1")" ] # else programs have said why
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
  lines=$(awk -F ';' -v at="$listed_at" -v known="$state/known.new" -v left="$state/left.new" '
    BEGIN { printf("") > known; printf("") > left }
    FILENAME ~ /copied$/ { copied[$0]; next }
    { name = $0; sub(/^changes;/, "", name); sub(/^[^;]*;[^;]*;[^;]*;/, "", name) }
    FILENAME ~ /skipped$/ { skipped[name]; next }
    FILENAME ~ /known$/ { is_known[$0]; delete skipped[name]; next }
    $0 in is_known { print > known; known_lines++; next }
    name in copied { print ($1 >= at ? "changes;" : "") $0 > known; known_lines++; next }
    $3 == 0 && name in skipped { next } # the bucket has more than this
    { print > left; left_lines++ }
    END { print known_lines + 0, left_lines + 0 }
    ' "$state/copied" "$state/skipped" "$state/known" "$state/now")
  [ "$(wc -l < "$state/known.new")" = "${lines% *}" ] && replace left "${lines#* }" && put alive "$(date +%s) $(total < "$state/left")"
}

# Settles, and keeps what is known for the next call.
settle_all() {
  settle && mv "$state/known.new" "$state/known" || report_incomplete
}

report_incomplete() {
  listed=
  problem=$incomplete
  return 1
}

# Writes all new and changed files back, then deletes what is deleted here. Fails if any is left; a file that changes
# meanwhile is the next call's.
write_back() {
  printf '' > "$state/log"
  listed=yes
  listed_at=$(date +%s)
  output=$(list now) || { listed='' && problem=$(cause 1 "$output"); }
  [ -z "${KUBECTL_SKY_DELETE-}" ] || [ -z "$listed" ] || find_gone now "$state/known" || report_incomplete
  settle || report_incomplete || return
  [ ! -s "$state/left" ] || copy_left
  [ ! -s "$state/left" ] && [ -n "$listed" ] || return
  [ ! -s "$state/gone" ] || delete_gone
}

# Adds to the list gone which files were known and are not in a list of those that exist, and drops those that are.
find_gone() { # LIST [KNOWN]
  existing=$state/$1
  shift
  lines=$(awk -v gone="$state/gone.new" '
    BEGIN { printf("") > gone }
    { sub(/^changes;/, ""); name = $0; sub(/^[^;]*;[^;]*;[^;]*;/, "", name) }
    FILENAME == ARGV[1] { exists[name]; next }
    !(name in exists) && !is_listed[name]++ { print > gone; lines++ }
    END { print lines + 0 }
    ' "$existing" "$state/gone" "$@")
  replace gone "$lines"
}

# Looks again before it deletes: a file may be back, or was renamed while the folder was listed.
delete_gone() {
  output=$(list again) || { problem=$(cause 1 "$output") && return 1; }
  find_gone again && list_names gone || report_incomplete || return
  [ -s "$state/gone" ] || return 0
  output=$(copier delete --files-from-raw "$state/names" "SRC:$KUBECTL_SKY_LOCATION" 2>&1) || { problem=$(cause $? "$output") && return 1; }
  printf '' > "$state/gone"
  settle_all
}

copy_left() {
  list_names left || report_incomplete || return
  (
    export RCLONE_CONFIG_SRC_NO_CHECK_BUCKET=true RCLONE_CONFIG_SRC_NO_CHECK_CONTAINER=true # needs a right to create it
    copier copy --links --local-encoding Raw --files-from-raw "$state/names" --no-traverse --no-check-dest --retries 1 --transfers 8 \
      --verbose --stats 10s --stats-one-line "$target" "SRC:$KUBECTL_SKY_LOCATION"
  ) > "$state/log" 2>&1 &
  progress='' since=$(date +%s)
  while kill -0 "$!" 2> /dev/null; do
    for pause in 1 2 3 4 5 6; do # settle reads all lists
      ! kill -0 "$!" 2> /dev/null || nap
    done
    settle
    now="$(wc -c < "$state/left") $(sed -n 's|^.* INFO *: *\([0-9.]* [kMGTP]*i*B /\).*|\1|p' "$state/log" | tail -n 1)"
    [ "$now" = "$progress" ] || since=$(date +%s)
    progress=$now
    if [ $(($(date +%s) - since)) -ge 60 ]; then
      kill "$!"
      stuck=yes # another try would take as long
    fi
  done
  wait "$!"
  problem=$(cause $? "$(sed '/ INFO /d' "$state/log")")
  settle_all || return
  [ -s "$state/left" ] && list again > /dev/null || return
  lines=$(awk -v left="$state/left.new" '
    BEGIN { printf("") > left }
    { name = $0; sub(/^[^;]*;[^;]*;[^;]*;/, "", name) }
    FILENAME == ARGV[1] { exists[name]; next }
    name in exists { print > left; lines++ } # without those that are deleted by now
    END { print lines + 0 }
    ' "$state/again" "$state/left")
  replace left "$lines"
}

# Prints what is not written back, and why.
unwritten() {
  if [ -s "$state/left" ]; then
    others=$(($(wc -l < "$state/left") - 1))
    [ "$others" = 0 ] && others='' || others=" and $others more"
    echo "$(total < "$state/left") not written back to $source ($(sed -n '1s/^[^;]*;[^;]*;[^;]*;//p' "$state/left")$others): $problem"
  elif [ -s "$state/gone" ] && [ -n "$listed" ]; then
    echo "$(total < "$state/gone") not deleted from $source: $problem"
  else
    echo "the files for $source cannot be listed: $problem"
  fi
}

# Says how large the bucket is, if its list is short and comes in 5 seconds. The sidecar has no time for it once it is told to
# stop.
summarize() {
  [ "$(cat "$state/bucket" "$state/known" | wc -l)" -le 10000 ] || return
  copier size --json "SRC:$KUBECTL_SKY_LOCATION" > "$state/size" 2> /dev/null &
  until=$(($(date +%s) + 5))
  while [ -z "$stopping" ] && kill -0 "$!" 2> /dev/null && [ "$(date +%s)" -lt "$until" ]; do nap; done
  kill "$!" 2> /dev/null
  has=$(sed -n 's/^{"count":\([0-9]*\),"bytes":\([0-9]*\).*/\1 \2/p' "$state/size")
  [ -z "$has" ] || put summary "$source has ${has% *} files, $(size_of "${has#* }")"
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
  [ -n "$answer$stopping" ] || summarize
  put answer "$answer" && rm -f "$state/ended"
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
