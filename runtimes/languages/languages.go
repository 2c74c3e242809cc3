package languages

import (
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/runtimes/golang"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/nodejs"
	"github.com/rouse-run/rouse/runtimes/python"
)

// all is the list. Nobody changes what is in it.
var all = []*language.Language{nodejs.Language(), python.Language(), golang.Language()}

// All lists the languages, each with its runtimes.
func All() []*language.Language { return all }

// Of is the language of a runtime, as spec.runtime names it.
func Of[R ~string](runtime R) (*language.Language, error) {
	for _, each := range all {
		if each.Has(string(runtime)) {
			return each, nil
		}
	}
	return nil, fmt.Errorf("there is no runtime %s; take one of %s", runtime, strings.Join(Runtimes(), ", "))
}

// Runtimes names every runtime that Functions may have.
func Runtimes() []string {
	var names []string
	for _, each := range all {
		for _, runtime := range each.Runtimes {
			names = append(names, runtime.Name)
		}
	}
	return names
}
