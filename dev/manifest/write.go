package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxWritten bounds a file that is written.
const maxWritten = 256 << 10

// Change sets fields of an object of a folder, which it adds where it is missing.
type Change struct {
	Kind, Namespace, Name string
	// Fields are those to set. A field that is nil is removed.
	Fields map[string]any
}

func (c Change) object() string { return c.Kind + " " + c.Namespace + "/" + c.Name }

// Written is an object before and after its Change.
type Written struct {
	Change

	// File is below the folder.
	File string
	// Before and After are its documents; Before is empty for a new one.
	Before, After string
}

// Writing is a set of Changes that Read accepts.
type Writing struct {
	Objects []Written
	// Problems lists the problems of the changed objects. Nothing is saved while one of them is more than a warning.
	Problems []Problem

	dir   string
	files map[string][]byte // by path below the folder
	order []string
}

// Find returns an object as it is written in the folder, nil for none.
func (r *Reader) Find(dir, kind, namespace, name string) (*unstructured.Unstructured, error) {
	found, err := collect(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	if at := found.index(Change{Kind: kind, Namespace: namespace, Name: name}.object()); at >= 0 {
		return found.objects[at].DeepCopy(), nil
	}
	return nil, nil
}

func (c *collection) index(name string) int {
	return slices.IndexFunc(c.objects, func(o object) bool { return describe(o.Object) == name })
}

// Change returns what Changes would write, checked together with all other objects of the folder.
func (r *Reader) Change(dir string, changes []Change, create bool) (*Writing, error) {
	known, err := r.definitions()
	if err != nil {
		return nil, err
	}
	found, err := collect(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	w := &Writing{dir: filepath.Clean(dir), files: map[string][]byte{}}
	for _, change := range changes {
		if err := w.add(found, change, create); err != nil {
			return nil, fmt.Errorf("%s: %w", change.object(), err)
		}
	}
	decoder := newDecoder(known, r.Sinks, nil)
	for _, object := range w.overlay(found) {
		decoder.add(context.Background(), object)
	}
	decoder.checkSinks()
	for _, problem := range decoder.problems {
		if slices.ContainsFunc(changes, func(c Change) bool { return c.object() == problem.Object }) {
			w.Problems = append(w.Problems, problem)
		}
	}
	return w, nil
}

// overlay returns the objects of a folder as they would be with the files.
func (w *Writing) overlay(found *collection) []object {
	objects := slices.DeleteFunc(slices.Clone(found.objects), func(o object) bool {
		_, written := w.files[w.below(o.doc.file)]
		return written
	})
	for _, file := range w.order {
		documents, _ := parse(filepath.Join(w.dir, file), w.files[file]) // what could be edited can be read
		for i := range documents {
			objects = append(objects, documents[i].objects()...)
		}
	}
	return objects
}

// below returns a path relative to the folder, empty for one outside of it.
func (w *Writing) below(path string) string {
	relative, err := filepath.Rel(w.dir, path)
	if err != nil || !filepath.IsLocal(relative) {
		return ""
	}
	return relative
}

func (w *Writing) add(found *collection, change Change, create bool) error {
	at := found.index(change.object())
	if at >= 0 && create {
		w.Problems = append(w.Problems, found.objects[at].problem(
			"metadata.name", fmt.Sprintf("there is one of this name in %s", found.objects[at].position()), "choose another name, or edit that one"))
		return nil
	}
	file, err := w.fileOf(found, at, change)
	if err != nil {
		return err
	}
	content, err := w.content(file)
	if err != nil {
		return err
	}
	fields := withName(change)
	changed, err := edit(content, change.object(), fields)
	if err != nil {
		return fmt.Errorf("%s cannot be edited here: %w", file, err)
	}
	if len(changed.file) > maxWritten {
		return fmt.Errorf("%s would be larger than %d KiB, the most that is written here", file, maxWritten>>10)
	}
	if w.files[file] == nil {
		w.order = append(w.order, file)
	}
	w.files[file] = changed.file
	w.Objects = append(w.Objects, Written{change, file, string(bytes.TrimLeft(changed.before, "\n")), string(changed.after)})
	return nil
}

// withName adds the name to the fields of a Change. The default namespace stays out of files that do not have it.
func withName(change Change) map[string]any {
	meta := map[string]any{"name": change.Name}
	if change.Namespace != DefaultNamespace {
		meta["namespace"] = change.Namespace
	}
	fields := map[string]any{"metadata": meta}
	maps.Copy(fields, change.Fields)
	return fields
}

// fileOf returns the file of an object: where it is, or else where another Change has put one, or one with its name.
func (w *Writing) fileOf(found *collection, at int, change Change) (string, error) {
	if at >= 0 {
		object := &found.objects[at]
		switch file := w.below(object.doc.file); {
		case object.files != nil:
			return "", fmt.Errorf("a kustomization builds it: %w", errNotEditable)
		case object.path != "":
			return "", fmt.Errorf("it is an item of a List: %w", errNotEditable)
		case file == "" || !isYAML(file):
			return "", fmt.Errorf("it is not in a manifest of the folder: %w", errNotEditable)
		default:
			return file, nil
		}
	}
	if len(w.order) > 0 {
		return w.order[0], nil
	}
	if kustomizationIn(w.dir) != "" {
		return "", errors.New("the folder has a kustomization, which lists its files: write the manifest by hand, and list it there")
	}
	file := change.Name + ".yaml"
	if _, err := os.Lstat(filepath.Join(w.dir, file)); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is a file %s already: choose another name, or add the object to that file by hand", file)
	}
	return file, nil
}

// content returns a file as earlier Changes have left it.
func (w *Writing) content(file string) ([]byte, error) {
	if content, written := w.files[file]; written {
		return content, nil
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if err := refuseLinks(root, file); err != nil {
		return nil, err
	}
	content, err := readFile(filepath.Join(w.dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// refuseLinks returns an error if a part of a path is a link, or the file is no file.
func refuseLinks(root *os.Root, file string) error {
	parts := strings.Split(filepath.Clean(file), string(filepath.Separator))
	for i := range parts {
		path := filepath.Join(parts[:i+1]...)
		info, err := root.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if last := i == len(parts)-1; last && !info.Mode().IsRegular() || !last && !info.IsDir() {
			return fmt.Errorf("%s is a link, or no file, and is not written: %w", path, errNotEditable)
		}
	}
	return nil
}

// newFile is the mode of a new manifest.
const newFile = 0o644

// Save writes the files, each as a whole.
func (w *Writing) Save() error {
	if slices.ContainsFunc(w.Problems, func(p Problem) bool { return !p.Warning }) {
		return errors.New("nothing is written while there are problems")
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return fmt.Errorf("write the folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, file := range w.order {
		if err := save(root, file, w.files[file]); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// save replaces a file of a folder. Its temporary one is hidden, so that nobody reads it.
func save(root *os.Root, file string, content []byte) error {
	if err := refuseLinks(root, file); err != nil {
		return err
	}
	mode := fs.FileMode(newFile)
	if info, err := root.Lstat(file); err == nil {
		mode = info.Mode().Perm()
	}
	temporary := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".rouse-new")
	written, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there, of a run that was killed: remove it", temporary)
	}
	if err != nil {
		return err
	}
	_, err = written.Write(content)
	if err = errors.Join(err, written.Close()); err == nil {
		err = root.Rename(temporary, file)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}
