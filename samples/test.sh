#!/usr/bin/env bash
# Tests of the sample Functions' handlers, some taken out of their manifests.
set -euo pipefail
cd "$(dirname "$0")"
node --test ./*/test/*.test.js
for tests in ./*/test/test_*.py; do
  PYTHONUTF8=1 python3 -B -m unittest discover -s "$(dirname "$tests")"
done
for module in ./*/*/go.mod; do
  go test -C "$(dirname "$module")" ./...
done
