#!/bin/sh
# Build the image of the server and the controllers, with docker, podman or buildah. `make image` runs it.
#
# Usage: image.sh NAME
set -eu
cd "$(dirname "$0")/.."
name=${1:?name of the image is required}

for builder in docker podman buildah; do
    if command -v "$builder" >/dev/null && "$builder" info >/dev/null 2>&1; then
        "$builder" build --file packages/server/Containerfile --tag "$name" .
        echo "$name"
        exit
    fi
done
echo 'error: docker, podman or buildah is required to build an image, and none of them responds' >&2
echo 'hint: install one of them, or start its engine' >&2
exit 1
