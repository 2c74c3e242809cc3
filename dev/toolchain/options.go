package toolchain

import (
	"io"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/dependencies"
)

// Options of a toolchain.
type Options struct {
	// Cache is the folder of everything that can be made again.
	Cache string
	// Programs are the interpreters, by the names of languages; those that are not named are taken from the PATH.
	Programs map[string]string
	// Output gets what package managers print; nil: it is dropped.
	Output io.Writer
	// Progress gets what is being done for a Function, and what its user should know; it may be nil. What is so for
	// all of them comes once, with the zero name. It may be called by several at a time.
	Progress func(fn types.NamespacedName, text string)
	// Doing gets what a Function waits for now, empty for nothing; it may be nil. It may be called by several at a time.
	Doing func(fn types.NamespacedName, text string)
	// Guard ends package managers with this process, should that be killed; it may be nil.
	Guard dependencies.Guard
}
