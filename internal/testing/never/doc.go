// Package never makes sure that something does not happen for a while.
//
// It looks in the goroutine of the test. require.Never looks in others, and one that asks a server may
// still be under way when the test has ended, and fails it then.
package never
