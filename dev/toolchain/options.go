package toolchain

import (
	"io"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/dependencies"
)

// Options say where the toolchain finds what it works with.
type Options struct {
	// Cache is the folder of everything that can be made again.
	Cache string
	// Node and Python are the interpreters; empty: those of the PATH.
	Node, Python string
	// Output takes what package managers print; nil: nobody.
	Output io.Writer
	// Progress hears what is being done for a Function, and what its user should know; nil: nobody. What is so for
	// all of them comes once, with the zero name. It may be called by several at a time.
	Progress func(fn types.NamespacedName, text string)
	// Doing hears what a Function waits for now, empty for nothing; nil: nobody. It may be called by several at a time.
	Doing func(fn types.NamespacedName, text string)
	// Guard ends package managers with this process, should that be killed; nil: nobody does.
	Guard dependencies.Guard
}
