#!/usr/bin/env bash
# Checks the types and the form of the pages, with the versions that are pinned here; --write formats them. Users need neither.
set -euo pipefail
typescript=7.0.2 biome=2.6.8
cd "$(dirname "$0")/../../dashboard"
npx --yes --package "typescript@$typescript" tsc --project jsconfig.json
npx --yes "@biomejs/biome@$biome" check "$@" .
