// Package progress reports the progress to the terminal: one aligned line per step with the
// seconds it took, and a sign of life while a step takes long.
package progress
