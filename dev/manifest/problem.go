package manifest

import (
	"strconv"
	"strings"
)

// Position is a file and a line in it.
type Position struct {
	// File as the user knows it: below the folder as it was given.
	File string
	// Line and Column count from 1, and are 0 when they are not known.
	Line, Column int
}

// String is the form that editors and terminals make a link of: "orders/pricing.yaml:12".
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Problem is what is wrong at a position.
type Problem struct { //nolint:errname // what is reported of a file, a warning too
	Position
	// Object that it is about, such as "Function orders/pricing"; empty when a file cannot be read.
	Object string
	// Message is what is wrong, in the words of a cluster where a cluster would refuse it.
	Message string
	// Remedy is what to do; it may be empty.
	Remedy string
	// Warning is true when the object is used nevertheless.
	Warning bool
}

// Error is all of it on one line.
func (p Problem) Error() string {
	var text strings.Builder
	text.WriteString(p.String())
	text.WriteString(": ")
	if p.Object != "" {
		text.WriteString(p.Object + ": ")
	}
	text.WriteString(strings.Join(strings.Fields(p.Message), " "))
	if p.Remedy != "" {
		text.WriteString(" (" + p.Remedy + ")")
	}
	return text.String()
}
