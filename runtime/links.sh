# Links volumes into the home directory, whose path depends on the image. Part of entry.sh.
# KUBECTL_SKY_LINKS has one line per link: its target and its path in the home directory.
echo "$KUBECTL_SKY_LINKS" | while IFS= read -r line; do
  target=${line%% *}
  link="${HOME:-}/${line#* }"
  [ ! -d "$link" ] || [ -L "$link" ] || rmdir "$link" 2> /dev/null ||
    fail 1 "~/${line#* } already exists and is not empty: the image has files in $link"
  mkdir -p "${link%/*}" 2> /dev/null && ln -sfn "$target" "$link" 2> /dev/null ||
    fail 1 "cannot create ~/${line#* }: user $(id -u) cannot write to ${link%/*}"
done || exit 1
