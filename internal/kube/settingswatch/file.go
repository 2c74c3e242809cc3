package settingswatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/kube/watch"
)

// file is one of the two, and what became of its last content.
type file struct {
	name types.NamespacedName
	key  string
	// use puts a text in force, and says what is different since then.
	use func(text string) (changes []string, err error)

	uid     types.UID // of the last ConfigMap
	used    bool      // one was good
	problem string    // of the last one, empty when it was good
}

// outcome is what there is to say of a content. Both are empty when there is nothing new.
type outcome struct {
	problem string
	changes []string
	first   bool // it is the first good one
}

// take uses a content.
func (f *file) take(content watch.Content) outcome {
	if content.Found {
		f.uid = content.UID
	}
	changes, err := f.read(content)
	if err != nil {
		problem := err.Error() + ". " + f.stays()
		if problem == f.problem {
			return outcome{}
		}
		f.problem = problem
		return outcome{problem: problem}
	}
	said := outcome{changes: changes, first: !f.used}
	if f.problem != "" && len(changes) == 0 {
		said.changes = []string{"The file is good again"}
	}
	f.used, f.problem = true, ""
	return said
}

func (f *file) read(content watch.Content) ([]string, error) {
	if !content.Found {
		return nil, fmt.Errorf("ConfigMap %s does not exist: create it with the key %s", f.name, f.key)
	}
	text, ok := content.Data[f.key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %s%s: add it", f.name, f.key, butHas(content.Data))
	}
	changes, err := f.use(text)
	if err != nil {
		return nil, fmt.Errorf("%w: correct it with kubectl edit configmap --namespace %s %s", err, f.name.Namespace, f.name.Name)
	}
	return changes, nil
}

// stays says what is in force.
func (f *file) stays() string {
	if f.used {
		return "The last good settings stay in force"
	}
	return "The settings of the command line are in force"
}

func butHas(data map[string]string) string {
	const most = 5
	if len(data) == 0 {
		return ""
	}
	keys := slices.Sorted(maps.Keys(data))
	return ", but " + strings.Join(keys[:min(len(keys), most)], ", ")
}
