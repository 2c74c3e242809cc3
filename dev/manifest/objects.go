package manifest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kindNamespace is a kind that a cluster has and local mode does not need.
const kindNamespace = "Namespace"

// maxObjects bounds the objects of a folder that are sent to a cluster.
const maxObjects = 1000

// Object is an object as it is written in a folder.
type Object struct {
	*unstructured.Unstructured
	// At is the position of the object.
	At Position
}

// Objects are those of a folder that belong into a cluster.
type Objects struct {
	// Deployed lists the objects of the kinds of local mode, and Namespaces. They have no defaults, which the API server sets.
	Deployed []Object
	// Left lists the objects of all other kinds.
	Left []Object
}

// Objects reads the objects of a folder as Read does, for a cluster: nothing of an envFile or of a manifest that is only for this machine
// is among them. Those without a namespace get the given one. It reports the problems that Read reports about single objects.
func (r *Reader) Objects(dir, namespace string) (Objects, []Problem, error) {
	known, err := r.definitions()
	if err != nil {
		return Objects{}, nil, err
	}
	found, err := collect(dir)
	if err != nil {
		return Objects{}, nil, fmt.Errorf("read the folder: %w", err)
	}
	decoder := newDecoder(known, r.Sinks, slices.DeleteFunc(found.problems, func(p Problem) bool { return onlyHere(p.File) }))
	var read Objects
	for i := range found.objects {
		object := &found.objects[i]
		if len(object.files) == 0 && onlyHere(object.doc.file) {
			continue
		}
		decoder.refuseFilesOfThisMachine(object)
		decoder.addTo(&read, object, namespace)
	}
	if err := decoder.addFileMaps(&read); err != nil {
		return Objects{}, nil, err
	}
	if count := len(read.Deployed); count > maxObjects {
		decoder.note(Problem{
			Position: Position{File: dir}, Message: fmt.Sprintf("has %d objects, and at most %d can be deployed together", count, maxObjects),
			Remedy: "deploy its folders one after the other",
		})
	}
	return read, decoder.problems, nil
}

// onlyHere reports whether a file is only for this machine.
func onlyHere(path string) bool {
	return filepath.Base(path) == envFile || isYAML(path) && isLocal(path)
}

// refuseFilesOfThisMachine adds a problem for a file that a kustomization includes although it is only for this machine.
func (d *decoder) refuseFilesOfThisMachine(o *object) {
	for file := range o.files {
		if onlyHere(file) && !d.reported[file] {
			d.reported[file] = true
			d.note(Problem{
				Position: Position{File: file}, Message: "is only for this machine, and a kustomization includes it",
				Remedy: "take it out of the kustomization, or give it another name",
			})
		}
	}
}

// addTo checks an object, and adds it as it is written.
func (d *decoder) addTo(read *Objects, o *object, namespace string) {
	if !d.named(o) {
		return
	}
	switch kind := o.GroupVersionKind(); {
	case kind.Kind == kindNamespace && kind.Group == "":
		o.SetNamespace("")
		read.Deployed = append(read.Deployed, o.written())
		return
	case !slices.Contains([]string{kindFunction, kindSubscription, kindSchedule, kindDoor, kindAPIRule, kindConfigMap, kindSecret}, kind.Kind):
		read.Left = append(read.Left, o.written())
		return
	case o.GetNamespace() == "":
		o.SetNamespace(namespace)
	}
	before, written := len(d.problems), o.written()
	d.add(context.Background(), *o)
	if !d.broken(before) {
		read.Deployed = append(read.Deployed, written)
	}
}

// written returns a copy of the object without the fields that a cluster sets, which objects have that were read from one.
func (o *object) written() Object {
	copied := o.DeepCopy()
	unstructured.RemoveNestedField(copied.Object, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		unstructured.RemoveNestedField(copied.Object, "metadata", field)
	}
	return Object{Unstructured: copied, At: o.position()}
}
