#!/usr/bin/env bash
# Checks the types and the form of the pages, with the versions that are pinned here. Users need neither.
set -euo pipefail
typescript=5.9.3 biome=2.3.8
pages=$(cd "$(dirname "$0")/../../dashboard" && pwd)
npx --yes --package "typescript@$typescript" tsc --project "$pages/jsconfig.json"
npx --yes "@biomejs/biome@$biome" lint --config-path "$pages" "$pages/pages"
