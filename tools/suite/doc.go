// Command suite runs the project's checks for `make check`, `make test` and `make flakes`.
//
// It guarantees that a failing check does not hide the next one, that the summary lists each failure with the command
// that repeats only it, that the exit code is then 1, and that an interrupted run stops all processes that it started.
package main
