// Package output writes the results of commands: tables for people, JSON, YAML and names for programs.
//
// It owns the formats of -o, alignment, colours and progress. It guarantees that only the requested result is written
// to the output, that there are no colours unless the output is a terminal and NO_COLOR is not set, and that text from
// events, Functions and servers cannot move the cursor or change colours in a table.
package output
