package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/routing"
)

// Reader reads folders. It compiles the CRDs once, so it should be reused.
type Reader struct {
	// Sinks are the allowed sinks besides Services.
	Sinks routing.Policy

	definitions func() (map[schema.GroupVersionKind]*crdschema.Definition, error)
}

// NewReader returns a Reader.
func NewReader() *Reader { return &Reader{definitions: sync.OnceValues(definitions)} }

// definitions returns the definitions of the chart's CRDs.
func definitions() (map[schema.GroupVersionKind]*crdschema.Definition, error) {
	files, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	return crdschema.Definitions(files)
}

// Read reads all objects of a folder. It leaves out objects with a Problem that is not a warning, and fails only when the folder cannot be
// read.
func Read(dir string) (Set, []Problem, error) { return NewReader().Read(dir) }

// Read reads all objects of a folder, as the function Read does.
func (r *Reader) Read(dir string) (Set, []Problem, error) {
	known, err := r.definitions()
	if err != nil {
		return Set{}, nil, err
	}
	found, err := collect(dir)
	if err != nil {
		return Set{}, nil, fmt.Errorf("read the folder: %w", err)
	}
	decoder := newDecoder(known, r.Sinks, found.problems)
	for _, object := range found.objects {
		decoder.add(context.Background(), object)
	}
	for i := range decoder.set.Functions {
		found.giveVariables(&decoder.set.Functions[i], dir)
	}
	decoder.addFiles()
	decoder.checkSinks()
	decoder.checkDoors()
	decoder.set.Files = found.names()
	slices.SortStableFunc(decoder.problems, func(a, b Problem) int {
		if byFile := strings.Compare(a.File, b.File); byFile != 0 {
			return byFile
		}
		return a.Line - b.Line
	})
	return decoder.set, decoder.problems, nil
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// maxFile bounds the size of a file: an API server accepts no larger request.
const maxFile = 3 << 20

// collection holds the unchecked content of a folder.
type collection struct {
	objects  []object
	problems []Problem
	// read holds every file that was read.
	read map[string]bool
	// variables holds those of each folder's envFile.
	variables map[string][]corev1.EnvVar
}

func (c *collection) names() []string { return slices.Sorted(maps.Keys(c.read)) }

// collect reads the folder: it builds folders with a kustomization and reads the YAML files of all others.
func collect(dir string) (*collection, error) {
	found := &collection{read: map[string]bool{}, variables: map[string][]corev1.EnvVar{}}
	walked, err := found.walk(dir)
	if err != nil {
		return nil, err
	}
	for _, built := range buildAll(walked.kustomizations) {
		found.objects = append(found.objects, built.objects...)
		found.problems = append(found.problems, built.problems...)
		for name := range built.files {
			found.read[name] = true
		}
	}
	for _, file := range walked.files {
		if !found.read[file] { // unless a kustomization elsewhere includes it
			found.addFile(file)
		}
	}
	return found, nil
}

func (c *collection) unreadable(path string, err error) {
	if whole, ok := errors.AsType[*fs.PathError](err); ok {
		err = whole.Err
	}
	c.problems = append(c.problems, Problem{Position: Position{File: path}, Message: "cannot be read: " + err.Error()})
}

func (c *collection) addFile(path string) {
	c.read[path] = true
	content, err := readFile(path)
	if err != nil {
		c.unreadable(path, err)
		return
	}
	if !ours.Match(content) {
		return // another program's file, whatever is in it
	}
	documents, problems := parse(path, content)
	c.problems = append(c.problems, problems...)
	for i := range documents {
		c.objects = append(c.objects, documents[i].objects()...)
	}
}

// readFile reads a file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path) //nolint:gosec // the user's own folder
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("it is larger than %d MiB, the most that an API server takes", maxFile>>20)
	}
	return content, nil
}
