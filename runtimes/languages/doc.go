// Package languages is the only list of the languages of Functions. Adding a language requires a folder beside it with
// a description, an entry in the list, and the places that the tests of the list then report: the runtime's name in the
// API and the chart, and its server among the files that local mode embeds.
//
// It guarantees that a runtime of no language is an error, and never treated as another's.
package languages
