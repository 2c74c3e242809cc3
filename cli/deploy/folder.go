package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/manifest"
)

// Label identifies, on an object, the folder that it was deployed from.
const Label = "rouse.run/deployed-from"

// Folder is the content of a folder for a cluster.
type Folder struct {
	// ID is the value of Label.
	ID string
	// Objects are in the order in which they are applied. They have the Label.
	Objects []Object
	// Left lists the objects of kinds that are not deployed.
	Left []string
}

// Object is an object of a folder.
type Object struct{ manifest.Object }

// Ref returns the name of the object.
func (o Object) Ref() Ref {
	return Ref{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Source selects what is deployed.
type Source struct {
	// Directory is the folder.
	Directory string
	// Namespace is that of objects without one.
	Namespace string
	// Only refuses objects of other namespaces.
	Only bool
	// Name identifies the folder, for those that lie at different paths; empty for an ID of its path.
	Name string
}

// Load reads a folder. It returns its problems, each on one line, and an error if they prevent a deploy.
func Load(s Source) (Folder, []string, error) {
	id, err := s.id()
	if err != nil {
		return Folder{}, nil, err
	}
	read, problems, err := manifest.NewReader().Objects(s.Directory, s.Namespace)
	if err != nil {
		return Folder{}, nil, exit.With(exit.Usage, err)
	}
	lines, wrong := describeProblems(problems)
	if wrong > 0 {
		return Folder{}, lines, exit.Errorf(exit.Usage, "the manifests of %s have %d problems: nothing was sent to the cluster", s.Directory, wrong)
	}
	folder := Folder{ID: id}
	for _, each := range read.Left {
		folder.Left = append(folder.Left, each.GetKind()+" "+each.GetName())
	}
	for _, each := range read.Deployed {
		object := Object{each}
		if namespace := object.GetNamespace(); s.Only && namespace != s.Namespace && object.GetKind() != kindNamespace {
			return Folder{}, lines, exit.Errorf(exit.Usage, "%s: %s is of namespace %s: leave --namespace out, or name that one",
				each.At, object.Ref(), namespace)
		}
		object.label(id)
		folder.Objects = append(folder.Objects, object)
	}
	if len(folder.Objects) == 0 {
		return Folder{}, lines, exit.Errorf(exit.Usage,
			"there is nothing to deploy in %s: no Function, Subscription, Schedule, Door, APIRule, ConfigMap or Secret", s.Directory)
	}
	slices.SortStableFunc(folder.Objects, func(a, b Object) int { return rank(a.GetKind()) - rank(b.GetKind()) })
	return folder, lines, nil
}

func describeProblems(problems []manifest.Problem) (lines []string, wrong int) {
	for _, problem := range problems {
		text := problem.Error()
		if problem.Warning {
			text = "warning: " + text
		} else {
			wrong++
		}
		lines = append(lines, text)
	}
	return lines, wrong
}

// label sets the Label, and writes the stringData of a Secret as data, of which server-side apply knows the owner.
func (o Object) label(id string) {
	if o.GetKind() == kindNamespace {
		return
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[Label] = id
	o.SetLabels(labels)
	if o.GetKind() == kindSecret {
		encode(o.Object.Object)
	}
}

// id returns the name of the source, or one that is made of its path.
func (s Source) id() (string, error) {
	if s.Name != "" {
		if wrong := validation.IsValidLabelValue(s.Name); len(wrong) > 0 {
			return "", exit.Errorf(exit.Usage, "--name %q: it becomes the value of a label: %s", s.Name, wrong[0])
		}
		return s.Name, nil
	}
	path, err := filepath.Abs(s.Directory)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", exit.Errorf(exit.Usage, "find the folder: %w", err)
	}
	sum := sha256.Sum256([]byte(path))
	return strings.Trim(labelled(filepath.Base(path)), "-") + "-" + hex.EncodeToString(sum[:5]), nil
}

// labelled returns the beginning of a text with the characters that a label's value may have.
func labelled(text string) string {
	const longest = 40
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, text)
	kept = strings.Trim(kept[:min(len(kept), longest)], "-")
	if kept == "" {
		return "folder"
	}
	return kept
}

// Namespaces returns the namespaces of the folder's objects.
func (f Folder) Namespaces() []string {
	var all []string
	for _, object := range f.Objects {
		if namespace := object.GetNamespace(); namespace != "" {
			all = append(all, namespace)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// at returns a line about an object, with its position.
func (o Object) at(err error) string {
	return fmt.Sprintf("%s: %s: %s", o.At, o.Ref(), err)
}
