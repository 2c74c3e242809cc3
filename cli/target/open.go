package target

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/instance"
)

// Options select a Rouse.
type Options struct {
	Context    string // of the kubeconfig
	Kubeconfig string
	Namespace  string // empty: the default of the target

	Directory string // the folder whose local mode is meant; empty: the working directory

	RouseNamespace string // where Rouse is installed in the cluster
	AdminSecret    string // the Secret with the token of the admin API there

	// Note is called with what is waited for. It may be nil.
	Note func(text string)
}

// The defaults of the chart.
const (
	DefaultRouseNamespace = "rouse-system"
	DefaultAdminSecret    = "rouse-eventbridge-admin" //nolint:gosec // the name of a Secret
)

// Connection is an open Target, with its name and its namespace.
type Connection struct {
	Target

	// Name is what it is called in messages.
	Name string
	// Local is true for the local mode, where all namespaces are one's own.
	Local bool
	// Namespace is the one to use: that of the options, else that of the context. It is empty for the local mode when
	// none was named: names are searched for in all of them there.
	Namespace string
}

// IsCluster reports whether a cluster is meant.
func (o Options) IsCluster() bool { return o.Context != "" || o.Kubeconfig != "" }

// Open finds the target. Nothing is asked of it yet.
func Open(o Options) (*Connection, error) {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.IsCluster() {
		return openCluster(o)
	}
	return openLocal(o)
}

func openLocal(o Options) (*Connection, error) {
	root, err := instance.Root()
	if err != nil {
		return nil, exit.With(exit.Unreachable, err)
	}
	directory := o.Directory
	if directory == "" {
		directory = "."
	}
	found, err := instance.Find(root, directory)
	switch {
	case err == nil:
		return &Connection{
			Target: newLocal(found), Name: "the local mode of " + found.Directory, Local: true, Namespace: o.Namespace,
		}, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.Errorf(exit.Unreachable, "%w; it is another user's", err)
	default:
		return nil, exit.With(exit.Unreachable, fmt.Errorf("there is nothing to talk to: %w", err))
	}
}
