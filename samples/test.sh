#!/usr/bin/env bash
# Tests of the sample Functions' handlers, taken out of their manifests.
set -euo pipefail
cd "$(dirname "$0")"
node --test orders/test/handlers.test.js shop/test/handlers.test.js
PYTHONUTF8=1 python3 -B -m unittest discover -s orders/test
