# Waits until the sidecars have written the files of synced buckets back. Part of entry.sh; see sync.sh for the files in
# the folders that a node shares with them.
lost_after=300 # seconds

# Prints what a sidecar could not write back yet.
watch_sidecars() {
  while kill -0 "$$" 2> /dev/null && sleep 2; do
    for folder in "$KUBECTL_SKY_FILES"/sync/*; do
      if [ -f "$folder/message" ]; then
        say "$(cat "$folder/message")"
        rm -f "$folder/message"
      fi
    done
  done
}
(watch_sidecars &) # no job of this shell: mpi.sh waits for all jobs

# Sets unwritten to what is lost. The grace period may end first: the termination message says what is left until then.
write_back() {
  trap 'stopping=1' TERM INT
  unwritten=
  for folder in "$KUBECTL_SKY_FILES"/sync/*; do
    rm -f "$folder/answer" "$folder/alive" "$folder/summary"
    : > "$folder/ended"
  done
  for folder in "$KUBECTL_SKY_FILES"/sync/*; do
    await_answer "$folder"
    [ -z "$answer" ] || say "$answer"
    [ ! -s "$folder/summary" ] || say "$(cat "$folder/summary")"
    unwritten=$unwritten${answer:+${unwritten:+; }$answer}
  done
  printf '%s' "$unwritten" > /dev/termination-log 2> /dev/null
}

await_answer() { # FOLDER
  alive=
  deadline=$(($(date +%s) + lost_after))
  until [ -e "$1/answer" ]; do
    now=$(cat "$1/alive" 2> /dev/null)
    if [ "$now" != "$alive" ]; then
      alive=$now # a time, and what is left
      echo "${alive#* } not written back" > /dev/termination-log 2> /dev/null
      deadline=$(($(date +%s) + lost_after))
    fi
    if [ "$(date +%s)" -ge "$deadline" ]; then
      answer="files may not be written back: ${1##*/}-sync did not answer for $lost_after seconds"
      return
    fi
    nap
  done
  answer=$(cat "$1/answer")
}
