// Package languages is the one list of the languages in which Functions may be written. Another language is a folder beside
// it with a description, a line in the list, and what the tests of the list then miss: the runtime's name in the API and
// the chart, and its server among the files that local mode embeds.
//
// It guarantees that what belongs to no language is an error, and never taken for another.
package languages
