package conversion

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Repositories are the GitRepositories by name, as Functions name them. nil means that they are not known here, and that somebody else
// writes them into the Functions later.
type Repositories map[types.NamespacedName]Repository

// Finding is something about one field of a Function.
type Finding struct {
	// Field is its path in v1alpha1.
	Field string
	// Why it is not kept as it is.
	Why string
	// Remedy is what to do.
	Remedy string
}

// String is all of it on one line.
func (f Finding) String() string { return f.Field + ": " + f.Why + ": " + f.Remedy }

// Report is what became of a Function besides what its fields say.
type Report struct {
	// Changed is what v1alpha2 says in another way, or not at all.
	Changed []Finding
	// Problems are why it cannot be converted.
	Problems []Finding
}

func (r *Report) changed(field, why, remedy string) {
	r.Changed = append(r.Changed, Finding{field, why, remedy})
}

func (r *Report) problem(field, why, remedy string) {
	r.Problems = append(r.Problems, Finding{field, why, remedy})
}

// Err is all problems as one error, nil if there is none.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	texts := make([]string, len(r.Problems))
	for i, problem := range r.Problems {
		texts[i] = problem.String()
	}
	return errors.New(strings.Join(texts, ". "))
}
