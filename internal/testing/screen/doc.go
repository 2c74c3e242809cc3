// Package screen runs programs in a pseudo-terminal, reads the screen that they draw, and types keys.
//
// It owns the pseudo-terminal and the emulator behind it. A Screen's Text and Cells are consistent snapshots, and
// waiting for a text waits for the program to draw rather than for a clock.
package screen
