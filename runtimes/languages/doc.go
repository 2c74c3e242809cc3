// Package languages is the one list of the languages in which Functions may be written.
//
// It guarantees that what belongs to no language is an error, and never taken for another.
package languages
