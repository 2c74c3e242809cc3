#!/usr/bin/env bash
# Tests the named runtimes, or all, over real HTTP, in parallel: Node.js with the machine's node and, as the image layer, with every
# supported version; Python from its layer with python3.12 and python3.14 of the folder RUNTIME_PYTHONS, which make
# test-runtimes sets, and else with the machine's python3; Go compiled by the machine's go. The output of each comes
# in one piece at its end.
set -euo pipefail
cd "$(dirname "$0")"

nodejs() {
  cd nodejs
  node --version
  npm ci --include=dev --no-audit --no-fund --loglevel=error
  npm test
  npm run test:layer
}

python() {
  cd python
  for one in "${RUNTIME_PYTHONS:+$RUNTIME_PYTHONS/python3.12}" "${RUNTIME_PYTHONS:+$RUNTIME_PYTHONS/python3.14}"; do "${one:-python3}" --version; done
  ./venv.sh
  .venv/bin/python -m pytest -q
}

golang() {
  cd golang
  go version
  go test -count=1 .
}

# This deletes all files of the tests, also after an interrupt. Their texts are UTF-8 in every locale.
# Requests to a registry of packages that does not answer are repeated.
TMPDIR=$(mktemp -d)
export TMPDIR PYTHONUTF8=1 npm_config_fetch_retries=5 PIP_RETRIES=8

# Each has a separate process group, which ends as a whole.
set -m
declare -A running=()
finish() {
  trap '' INT TERM HUP
  for ((tries = 0; tries < 100; tries++)); do
    local left=
    for group in "${!running[@]}"; do
      if ((tries == 0)); then kill -TERM -- "-$group" 2>/dev/null || true; fi
      if kill -0 -- "-$group" 2>/dev/null; then left+=" -$group"; fi
    done
    if [[ -z "$left" ]]; then break; fi
    sleep 0.1
  done
  if [[ -n "$left" ]]; then kill -KILL -- $left 2>/dev/null || true; fi
  rm -rf "$TMPDIR"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

start() {
  ("$1") >"$TMPDIR/$1.log" 2>&1 </dev/null &
  running[$!]=$1
}

if (($# == 0)); then set -- nodejs python golang; fi
echo "runtimes: testing $* side by side, which takes some minutes"
for one in "$@"; do
  case "$one" in nodejs | python | golang) start "$one" ;; *) echo "runtimes: there is no $one, only nodejs, python and golang" >&2; exit 2 ;; esac
done

failed=()
while ((${#running[@]})); do
  result=passed
  wait -n -p ended "${!running[@]}" || result=FAILED
  name=${running[$ended]}
  unset "running[$ended]"
  cat "$TMPDIR/$name.log"
  echo "== runtimes/$name $result after $SECONDS s"
  if [[ "$result" == FAILED ]]; then failed+=("$name"); fi
done
if ((${#failed[@]})); then
  echo "runtimes: tests failed: ${failed[*]}" >&2
  exit 1
fi
