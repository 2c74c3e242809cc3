package apirule

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with an APIRule.
type Problem struct {
	// Attribute is the path of the field, such as ".spec.rules[0].path".
	Attribute string
	// Message is for people.
	Message string
	// Closes is what does not answer for it.
	Closes Closed
}

// Closed is a part of an APIRule.
type Closed int

// IsOfOthers reports whether other objects are the reason: it may pass although the APIRule stays as it is.
func (p Problem) IsOfOthers() bool {
	return p.Closes != All || p.Message == messageGatewayMissing || strings.HasPrefix(p.Message, messageHostTaken)
}

// All is the whole of an APIRule: something is wrong in it.
const All Closed = 0

// RuleAt is the rule of that index alone: something is missing around it, and the other rules can do without.
func RuleAt(index int) Closed { return Closed(index + 1) }

// Problems are all that is wrong, in the order in which they are said.
type Problems []Problem

const (
	// shown is how many problems a status has.
	shown = 3

	ready  = "Reconciled successfully"
	failed = "Validation errors: "
)

// Description is the description of a status: the first problems and how many more there are, or that there are none.
func (p Problems) Description() string {
	switch {
	case len(p) == 0:
		return ready
	case len(p) <= shown:
		return failed + p.String()
	default:
		return failed + p[:shown].String() + fmt.Sprintf("\n%d more error(s)...", len(p)-shown)
	}
}

// String is all of them, each on a line, for events and logs.
func (p Problems) String() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = fmt.Sprintf("Attribute '%s': %s", problem.Attribute, problem.Message)
	}
	return strings.Join(lines, "\n")
}

func one(attribute, message string) Problems {
	return Problems{{Attribute: attribute, Message: message}}
}

// missing is a problem of one rule's surroundings.
func missing(rule int, attribute, message string) Problems {
	return Problems{{Attribute: attribute, Message: message, Closes: RuleAt(rule)}}
}
