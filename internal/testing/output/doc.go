// Package output holds what a process or a log writes, for tests that read it meanwhile.
package output
