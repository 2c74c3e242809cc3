// Package never asserts that a condition stays false for a while.
//
// It checks the condition in the goroutine of the test. require.Never checks in other goroutines, and a check that
// calls a server may still be in progress when the test has ended, and then fail it.
package never
