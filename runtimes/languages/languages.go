package languages

import (
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/runtimes/golang"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/nodejs"
	"github.com/rouse-run/rouse/runtimes/python"
)

// all is the immutable list.
var all = []*language.Language{nodejs.Language(), python.Language(), golang.Language()}

// All lists the languages, each with its runtimes.
func All() []*language.Language { return all }

// Of returns the language of a runtime, given the value of spec.runtime.
func Of[R ~string](runtime R) (*language.Language, error) {
	for _, each := range all {
		if each.Has(string(runtime)) {
			return each, nil
		}
	}
	return nil, fmt.Errorf("there is no runtime %s; take one of %s", runtime, strings.Join(Runtimes(), ", "))
}

// Runtimes returns the names of all supported runtimes.
func Runtimes() []string {
	var names []string
	for _, each := range all {
		for _, runtime := range each.Runtimes {
			names = append(names, runtime.Name)
		}
	}
	return names
}
