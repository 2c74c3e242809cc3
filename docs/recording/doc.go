// Command recording makes the moving picture of the README: it runs a program in a pseudo-terminal, types what
// a script says, and writes what the screen showed as an animated SVG, in the times in which it happened.
//
// The same screens at the same times always give the same file.
package main
