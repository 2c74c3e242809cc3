package manifest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/routing"
)

// Reader reads folders. It compiles the CRDs once, so a caller that reads repeatedly keeps it.
type Reader struct {
	// Sinks are those that are allowed besides Services.
	Sinks routing.Policy

	definitions func() (map[schema.GroupVersionKind]*crdschema.Definition, error)
}

// NewReader makes a Reader.
func NewReader() *Reader { return &Reader{definitions: sync.OnceValues(definitions)} }

// definitions are those of the chart's CRDs.
func definitions() (map[schema.GroupVersionKind]*crdschema.Definition, error) {
	files, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	return crdschema.Definitions(files)
}

// Read reads all objects of a folder. Objects with a Problem that is no warning are left out, and the rest goes on;
// the error is for a folder that cannot be read at all.
func Read(dir string) (Set, []Problem, error) { return NewReader().Read(dir) }

// Read is as the function Read.
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
	decoder.checkSinks()
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
