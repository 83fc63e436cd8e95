# Adds a sudo for root to images without one, as SkyPilot does. Only tasks whose scripts mention sudo have this file.
if [ "$(id -u)" -eq 0 ] && ! command -v sudo > /dev/null; then
  mkdir -p "$KUBECTL_SKY_FILES/bin"
  cat > "$KUBECTL_SKY_FILES/bin/sudo" << 'END'
#!/bin/sh
while :; do
  case ${1-} in
    -E | -H | -n | -S | -k | --preserve-env* | --set-home | --non-interactive) shift ;;
    -u | --user) [ "${2-}" = root ] || break; shift 2 ;;
    *) break ;;
  esac
done
case ${1-} in
  -*) echo "sudo: the image has no sudo, and $1 is not supported without it" >&2; exit 1 ;;
  "") echo "usage: sudo COMMAND" >&2; exit 1 ;;
esac
exec env "$@"
END
  chmod +x "$KUBECTL_SKY_FILES/bin/sudo"
  export PATH="$PATH:$KUBECTL_SKY_FILES/bin"
fi
