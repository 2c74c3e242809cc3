package admission

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is one thing that is wrong with a Function.
type Problem struct {
	// Field is the path of the field, such as "spec.env[0].name". The text may name it another way, or not at all.
	Field string
	// Text is for people.
	Text string
}

// Problems are all that is wrong, in the order in which they are said.
type Problems []Problem

// String is all of them as one text.
func (p Problems) String() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Text
	}
	return strings.Join(texts, ". ")
}

// Err is all of them as one error, nil if there is none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return errors.New(p.String())
}

func problemAt(path *field.Path, text string) Problem {
	return Problem{Field: path.String(), Text: text}
}
