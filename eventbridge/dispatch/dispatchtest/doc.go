// Package dispatchtest holds what a Dispatcher promises as a test suite, to be run against every broker
// that it is to work with, and an in-memory broker to run it against without one.
package dispatchtest
