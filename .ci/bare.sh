#!/bin/sh
# Run a command as on a machine with Python alone: no Go, Node or cluster tool, and an empty home.
set -eu
folder=$(mktemp -d "$PWD/.venv/bare.XXXXXX") # pods of the practice cluster have a /tmp of their own
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/home"

# What comes first on PATH stays first: ln refuses a name that exists.
echo "$PATH" | tr : '\n' | while read -r place; do
  ln -s "$place"/* "$folder/bin/" 2> /dev/null || :
done
cd "$folder/bin"
rm -f chromium containerd ctr docker etcd go gofmt helm k3d kind kubectl minikube node npm npx podman rclone runc
cd - > /dev/null

# Nothing is in the cache of an empty home, and without a proxy Go cannot build.
env -u GOPATH -u GOMODCACHE -u XDG_CACHE_HOME \
  GOPROXY=off HOME="$folder/home" PATH="$folder/bin" "$@"
