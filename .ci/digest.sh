#!/bin/sh
# Write the digest of this version's image into the source: a release installs no image that somebody
# can move. The workflow of releases runs it before it builds packages and archives.
#
# Usage: digest.sh sha256:DIGEST
set -eu
cd "$(dirname "$0")/.."
file=packages/server/kubectl_sky_server/install/model.py
sed -i.old "s|^IMAGE_DIGEST = \"\"|IMAGE_DIGEST = \"$1\"|" "$file"
rm "$file.old"
grep -q "^IMAGE_DIGEST = \"sha256:[0-9a-f]\{64\}\"" "$file" || { echo "error: $file has no digest" >&2; exit 1; }
