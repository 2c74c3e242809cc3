package target

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/instance"
)

// Options select a Rouse.
type Options struct {
	Context    string // of the kubeconfig
	Kubeconfig string
	Namespace  string // empty: the default of the target

	Directory string // the folder whose local mode is meant; empty: the working directory

	RouseNamespace string   // where Rouse is installed in the cluster
	AdminURLs      []string // of the admin APIs there; none: those of all bridges, by port-forward
	ServiceAccount string   // namespace/name, whose token the admin API gets; empty: that of the kubeconfig

	// Note is called with what is waited for. It may be nil.
	Note func(text string)
}

// DefaultRouseNamespace is where the chart's documentation installs it.
const DefaultRouseNamespace = "rouse-system"

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

// checkAdmin refuses what would send a login where it can be read on its way.
func (o Options) checkAdmin() error {
	if (len(o.AdminURLs) > 0 || o.ServiceAccount != "") && !o.IsCluster() {
		return exit.Errorf(exit.Usage, "--admin-url and --service-account are for a cluster: add --context or --kubeconfig")
	}
	for _, text := range o.AdminURLs {
		if err := checkAdminURL(text); err != nil {
			return err
		}
	}
	return nil
}

func checkAdminURL(text string) error {
	address, err := url.Parse(text)
	switch {
	case err != nil || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return exit.Errorf(exit.Usage, "--admin-url: use a URL such as https://rouse.example.com, or http://localhost:9091 behind kubectl port-forward")
	case address.Scheme == "https", address.Scheme == "http" && isThisMachine(address.Hostname()):
		return nil
	}
	return exit.Errorf(exit.Usage, "--admin-url %s: your token could be read on its way there: use https, or http to this machine behind kubectl port-forward", address)
}

func isThisMachine(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// Open finds the target. Nothing is asked of it yet.
func Open(o Options) (*Connection, error) {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if err := o.checkAdmin(); err != nil {
		return nil, err
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
