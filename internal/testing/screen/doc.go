// Package screen reads programs as a person at a terminal does: it runs them in a pseudo-terminal, reads
// what they draw there, and types keys.
//
// It owns the pseudo-terminal and the emulator behind it. A Screen's Text and Cells are of one moment, and
// waiting for a text waits for the program to draw, not for a clock.
package screen
