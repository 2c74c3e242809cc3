// Command vulncheck fails when code that Rouse runs can reach a known vulnerability.
//
//	go run -C tools/supply ./vulncheck -C ../.. ./cmd/... ./runtimes/...
//
// govulncheck finds what is reachable. This command around it guarantees that there is no silent or stale pass: without the database,
// or with one that has not changed for 30 days, it says "not checked" and why. With VULNDB_REQUIRED=1 that is a failure,
// as everything is that a run without an answer could hide. GOVULNDB names another database, such as a copy in a folder.
package main
