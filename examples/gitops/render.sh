#!/bin/sh
# Renders task.yaml into base/. Run it in CI, or before you commit.
set -eu
cd "$(dirname "$0")"
render() { kubectl-sky render task.yaml --user gitops "$@"; }
# A Job cannot be changed. The id is a hash of the manifests, so that a changed task is a new Job.
manifests=$(render --id hashed00)
id=t$(echo "$manifests" | sha256sum | cut -c1-7)
rm -f base/*.yaml
files=$(render --id "$id" --output-dir base)
{ echo "resources:" && echo "$files" | sed 's,^base/,  - ,'; } > base/kustomization.yaml
