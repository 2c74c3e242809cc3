#!/usr/bin/env bash
# Runs the end-to-end features. Without KUBECONFIG it brings up the local cluster and takes it away again;
# a local cluster that runs already is used and left as it was.
set -euo pipefail
cd "$(dirname "$0")/.."

cluster() { go run -C e2e/cluster . "$@"; }

if [[ -z "${KUBECONFIG:-}" ]]; then
  if ! cluster status >/dev/null 2>&1; then
    trap 'cluster down' EXIT
  fi
fi
cluster up
eval "$(cluster env)"

go test -tags e2e -count=1 -timeout 30m -v ./e2e/features
go test -tags e2e -count=1 -timeout 10m -v ./e2e/lifecycle
