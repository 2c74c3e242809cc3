// Command signoff fails when a commit is not signed off by its author, as the Developer Certificate of Origin asks for.
//
//	go run -C tools/supply ./signoff -C ../.. origin/main..HEAD
//
// It guarantees that each commit of the range that is no merge has a line "Signed-off-by" with its author's address, and names those
// that have none. A range without commits passes, one that git does not know fails.
package main
