// Package never makes sure that something does not happen for a while.
//
// It checks in the goroutine of the test. require.Never checks in others, and a check that calls a server may
// still be under way when the test has ended, and fails it then.
package never
