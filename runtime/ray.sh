# Puts SkyPilot's scripts for a Ray cluster of the task's own into ~/sky_templates. Part of entry.sh; only tasks whose
# scripts mention sky_templates have this file.
ray_folder=$HOME/sky_templates/ray
mkdir -p "$ray_folder" || fail 1 "cannot create $ray_folder"
for name in start_cluster stop_cluster; do
  cp "$dir/ray_$name.sh" "$ray_folder/$name" && chmod +x "$ray_folder/$name"
done

# Keeps a worker whose run has succeeded until the head has ended: Ray's processes end with their pod.
stay_in_ray() {
  [ "$NODE_RANK" -ne 0 ] && [ -s "$ray_folder/.head" ] || return 0
  read -r ip port < "$ray_folder/.head"
  say "run has ended; this Ray worker runs until the head on rank 0 has ended"
  misses=0
  result=143 # if this node is stopped meanwhile
  while [ "$misses" -lt 3 ] && cat /proc/[0-9]*/comm 2> /dev/null | grep -qx raylet; do
    misses=$((misses + 1))
    if ! command -v bash > /dev/null || timeout 5 bash -c ": < /dev/tcp/$ip/$port" 2> /dev/null; then misses=0; fi
    sleep 2
  done
  result=0
}
