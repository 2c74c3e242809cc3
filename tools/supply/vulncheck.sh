#!/usr/bin/env bash
# Fails when code that Rouse runs can reach a known vulnerability: vulncheck.sh MODULE PACKAGE...
#
# govulncheck finds reachable vulnerabilities. This script prevents a silent or stale pass: without the database, or with a database that
# has not changed for 30 days, it prints "not checked" and the reason. With VULNDB_REQUIRED=1, this is a failure. GOVULNDB names another
# database, such as a copy in a folder.
set -euo pipefail

database=${GOVULNDB:-https://vuln.go.dev}
module=$(realpath "$1")
shift

unchecked() {
  echo "vulnerabilities: not checked: the database $database $1"
  [[ "${VULNDB_REQUIRED:-}" == 1 ]] || exit 0
  echo "vulnerabilities: VULNDB_REQUIRED=1 requires an answer"
  exit 1
}

index=$(curl --silent --show-error --fail --max-time 30 "$database/index/db.json" 2>&1) || unchecked "is unreachable: $index"
modified=$(grep -oP '"modified":\s*"\K[^"]+' <<<"$index") || unchecked "has no time in its index"
age=$((($(date +%s) - $(date --date "$modified" +%s)) / 86400))
((age <= 30)) || unchecked "is of ${modified%%T*}, $age days old"

# Not by `go run`, which would run in the module of the tools.
govulncheck=$(mktemp)
trap 'rm -f "$govulncheck"' EXIT
go build -C "$(dirname "$0")" -o "$govulncheck" golang.org/x/vuln/cmd/govulncheck
"$govulncheck" -C "$module" -db "$database" "$@"
