#!/usr/bin/env bash
# Runs the end-to-end features, or with PACKAGES and RUN only those tests. Without KUBECONFIG it starts the local cluster, or with
# ROUSE_CLUSTER=kind a cluster in Docker, and deletes it afterwards; a running cluster is used and kept. On a cluster of the user, Rouse is
# not uninstalled.
set -euo pipefail
cd "$(dirname "$0")/.."

. e2e/steps.sh

after=down
if [[ -z "$own" ]]; then
  if cluster status >/dev/null 2>&1; then after=up; fi
  trap 'cluster "$after"' EXIT
fi
run cluster up
selected=$(cluster env)
eval "$selected"

if [[ -n "${PACKAGES:-}" ]]; then
  run go test -tags e2e -count=1 -timeout 60m -v -run "${RUN:-.}" $PACKAGES
  exit
fi

# A feature starts this program; compiling it now takes no CPU time from the features.
run go build -C e2e/bindings -o /dev/null .
# Builds wait for networks and pods, so more features than cores run at once.
run go test -tags e2e -count=1 -timeout 60m -parallel 6 -v ./e2e/features
run go run ./e2e/isolation
if [[ -z "$own" ]]; then
  run go test -tags e2e -count=1 -timeout 15m -v ./e2e/serverless
  run go test -tags e2e -count=1 -timeout 30m -v ./e2e/lifecycle
else
  echo "e2e: the operator, upgrade and uninstall are left out on a cluster of your own"
fi
