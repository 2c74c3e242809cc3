// Package misspelling measures how far a name is from another one, for messages that name what was probably meant.
//
// It is pure. The cost grows with the product of both lengths, which callers bound.
package misspelling
