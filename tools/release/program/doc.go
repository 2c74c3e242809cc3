// Package program runs programs. What they write to standard error is part of the error when they fail.
package program
