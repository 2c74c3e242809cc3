#!/usr/bin/env bash
# Starts three nodes, runs the tests that need more than one, and deletes the nodes. NetworkPolicies come first, with the chart's NATS,
# which they restrict; then three NATS servers, of which two survive the loss of a node. A running cluster is deleted first.
set -euo pipefail
cd "$(dirname "$0")/../.."
. e2e/steps.sh

if [[ -n "$own" || "${ROUSE_CLUSTER:-local}" != local ]]; then
  echo "e2e-nodes: it pulls the cables of nodes, which only the local cluster lets it do: unset KUBECONFIG and CLUSTER" >&2
  exit 2
fi
export ROUSE_TALLY NODES=3
ROUSE_TALLY=$(mktemp)
trap 'rm -f "$ROUSE_TALLY"; cluster down' EXIT

NATS_REPLICAS=1 run cluster up
selected=$(cluster env)
eval "$selected"
run go test -tags e2e -count=1 -timeout 20m -v -run Policies ./e2e/nodes
NATS_REPLICAS=3 run cluster up
run kubectl -n rouse-system scale deployment/rouse-controller --replicas="${CONTROLLERS:-1}"
run kubectl -n rouse-system rollout status deployment/rouse-controller --timeout=2m
run go test -tags e2e -count=1 -timeout 40m -v -run Node ./e2e/nodes

counted=$(<"$ROUSE_TALLY")
trap - EXIT
rm -f "$ROUSE_TALLY"
cluster down
echo "nodes ok:$counted"
