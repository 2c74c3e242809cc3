// Command suite runs the project's checks for `make check`, `make test` and `make flakes`.
//
// It guarantees that a check that fails does not hide the next one, that the end lists what failed with the command
// that runs just that, that the exit code is 1 then, and that an interrupted run stops every process that it started.
package main
