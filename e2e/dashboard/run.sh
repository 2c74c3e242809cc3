#!/usr/bin/env bash
# Runs the tests of the dashboard with Chromium, which it installs where it is missing: root, on Debian and Ubuntu.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v chromium chromium-browser chromium-headless-shell google-chrome >/dev/null; then
  echo "installing Chromium ..."
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
if [ -n "${ROUSE_SCREENSHOTS-}" ] && [ -z "$(fc-list Inter)" ]; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends fonts-inter >/dev/null # pictures look alike wherever they are made
fi
npm ci --ignore-scripts --no-audit --no-fund --silent # axe-core, by the hash in package-lock.json
go vet .
exec go test -count=1 -timeout 30m "$@" .
