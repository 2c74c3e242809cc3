// Package progress tells the person at the terminal what is going on: one aligned line per step with the
// seconds it took, and a sign of life while a step takes long.
package progress
