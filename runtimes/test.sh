#!/usr/bin/env bash
# Tests both runtimes over real HTTP: Node.js with the machine's node and, as the image layer, with every version it is
# made for; Python from its layer with the machine's python3.
set -euo pipefail
cd "$(dirname "$0")"

# Whatever the tests write goes away with this, also when they are interrupted. Their texts are UTF-8 in every locale.
TMPDIR=$(mktemp -d)
trap 'rm -rf "$TMPDIR"' EXIT
export TMPDIR PYTHONUTF8=1

echo "== Node.js $(node --version)"
(cd nodejs && npm ci --include=dev --no-audit --no-fund --loglevel=error && npm test && npm run test:layer)

echo "== $(python3 --version)"
(cd python && ./venv.sh && .venv/bin/python -m pytest -q)
