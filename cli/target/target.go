package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kedarules"
	"github.com/rouse-run/rouse/internal/skew"
)

// Inventory lists the resources of a Target.
type Inventory interface {
	// Functions returns the Functions of a namespace, or of all for "".
	Functions(ctx context.Context, namespace string) ([]Function, error)
	// Exposed returns the URLs of APIRules, by Function. It is empty when they are unknown.
	Exposed(ctx context.Context, namespace string) map[types.NamespacedName][]string
	// Scaling returns what is known about the replicas of a Function, without its events. It is nil before there is a Deployment.
	Scaling(ctx context.Context, namespace, name string) (*kedarules.Status, error)
	// Subscriptions returns the Subscriptions of a namespace, or of all for "".
	Subscriptions(ctx context.Context, namespace string) ([]Subscription, error)
	// Namespaces returns the namespaces of Functions and Subscriptions.
	Namespaces(ctx context.Context) ([]string, error)
}

// Target is a running Rouse.
type Target interface {
	Inventory

	// Publish returns the URL of the publish endpoint.
	Publish(ctx context.Context) (url string, err error)
	// Admins returns the admin APIs, one per bridge, at least one.
	Admins(ctx context.Context) ([]Admin, error)
	// Function returns the URL of a Function, which is awake or woken by a call.
	Function(ctx context.Context, namespace, name string) (url string, err error)
	// Log calls handle with each line of a Function, or of all of the namespace for "", one at a time, ordered by time as far as it is known.
	Log(ctx context.Context, namespace, name string, o LogOptions, handle func(Line)) error
	// Close closes all connections.
	Close() error
}

// Admin is an API that requires a token: the admin API of a bridge, or the control API of local mode.
type Admin struct {
	URL   string
	Token string
}

// Function is a Function in a list.
type Function struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	Phase     string `json:"phase"`
	Ready     int    `json:"ready"`
	Desired   int    `json:"desired"`
	Backlog   *int64 `json:"backlog,omitempty"` // nil when unknown
	URL       string `json:"url,omitempty"`     // in a cluster the internal URL
	LastError string `json:"lastError,omitempty"`
	Older     bool   `json:"older,omitempty"` // an older version answers, because of LastError; in local mode only

	// Min and Max bound the replicas; in clusters only.
	Min int `json:"-"`
	Max int `json:"-"`

	// Exposed lists the URLs of APIRules. In a cluster Inventory.Exposed returns them instead.
	Exposed []string `json:"exposed,omitempty"`
}

// Subscription is a Subscription in a list.
type Subscription struct {
	Namespace    string   `json:"namespace"`
	Name         string   `json:"name"`
	Source       string   `json:"source"`
	Types        []string `json:"types"`
	TypeMatching string   `json:"typeMatching,omitempty"` // exact, or standard when empty
	Sink         string   `json:"sink"`                   // without credentials
	State        string   `json:"state"`                  // preparing, ready, paused or failing
	Message      string   `json:"message,omitempty"`      // what is wrong
}

// Function returns the Function whose Service is the sink of the Subscription; empty if no name of a Function can be meant.
func (s *Subscription) Function() types.NamespacedName {
	sink, err := url.Parse(s.Sink)
	if err != nil {
		return types.NamespacedName{}
	}
	name, within := strings.CutSuffix(sink.Hostname(), "."+s.Namespace+".svc.cluster.local")
	if !within {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: s.Namespace, Name: name}
}

// LeadsTo reports whether the sink of the Subscription is the Function's Service.
func (s *Subscription) LeadsTo(fn *Function) bool {
	return s.Function() == types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
}

// LogOptions select lines of a log.
type LogOptions struct {
	Tail   int           // past lines per replica; negative for all
	Since  time.Duration // how far back; 0 for everything
	Follow bool          // until ctx ends
}

// Line is a line of a Function's log.
type Line struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Function  string    `json:"function"`
	Replica   string    `json:"replica"`
	Stream    string    `json:"stream"` // stdout, stderr, or rouse for what Rouse reports about it
	Text      string    `json:"text"`
}

// Options select a Rouse.
type Options struct {
	Context    string // of the kubeconfig
	Kubeconfig string
	Current    bool   // the cluster of the kubeconfig's current context
	Namespace  string // empty: the default of the target

	Directory string // the folder of the local mode; empty: the working directory

	RouseNamespace string   // where Rouse is installed in the cluster
	AdminURLs      []string // of the admin APIs there; none: those of all bridges, by port-forward
	ServiceAccount string   // namespace/name, whose token the admin API gets; empty: the kubeconfig's token

	// MaxObjects bounds the objects of a kind that are read for a list; 0: all are. A namespace with more is an error.
	MaxObjects int

	// MaxLine bounds the bytes of a line of a log, and LogRate the bytes of a log in a second; 0: they have no bound.
	MaxLine, LogRate int

	// Note is called with messages about what the command waits for. It may be nil.
	Note func(text string)
}

// DefaultRouseNamespace is the namespace in the chart's installation guide.
const DefaultRouseNamespace = "rouse-system"

// Connection is an open Target, with its name and its namespace.
type Connection struct {
	Target

	// Name is the name of the target in messages.
	Name string
	// Local is true for the local mode, where all namespaces are one's own.
	Local bool
	// Namespace is the effective namespace: that of the options, or else that of the context. It is empty for the local
	// mode when none was named: names are searched in all namespaces there.
	Namespace string

	// usual is the namespace to prefer when Namespace is empty.
	usual string
}

// Find returns the Function with the name, in a namespace or in any for "".
func (c *Connection) Find(ctx context.Context, namespace, name string) (Function, error) {
	all, err := c.Functions(ctx, namespace)
	if err != nil {
		return Function{}, err
	}
	return choose(all, namespace, name, c.usual)
}

// IsCluster reports whether the options select a cluster.
func (o Options) IsCluster() bool { return o.Context != "" || o.Kubeconfig != "" || o.Current }

// checkAdmin refuses URLs to which a token would be sent unencrypted.
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

// Open selects the target. It sends no request.
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

// local returns the local mode that is meant: that of the working directory or the only one, unless a folder is named.
func (o Options) local(root string) (instance.Instance, error) {
	if o.Directory == "" {
		return instance.Find(root, ".")
	}
	return instance.Serving(root, o.Directory)
}

func openLocal(o Options) (*Connection, error) {
	root, err := instance.Root()
	if err != nil {
		return nil, exit.With(exit.Unreachable, err)
	}
	found, err := o.local(root)
	switch {
	case err == nil:
		return &Connection{
			Target: newLocal(found), Name: "the local mode of " + found.Directory, Local: true, Namespace: o.Namespace, usual: found.Namespace,
		}, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, exit.Errorf(exit.Unreachable, "%w; it is another user's", err)
	default:
		return nil, exit.With(exit.Unreachable, fmt.Errorf("there is nothing to talk to: %w", err))
	}
}

// Ask sends a request and returns the response of any status. The caller closes the body. Errors contain no URL, because the user did not
// write it.
func (a Admin) Ask(
	ctx context.Context, client *http.Client, method, path string, query url.Values, body io.Reader,
) (*http.Response, error) {
	address := strings.TrimSuffix(a.URL, "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.Token)
	request.Header.Set(skew.Header, skew.This(daemon.Version()).String())
	response, err := client.Do(request)
	return response, withoutURL(err)
}

// withoutURL removes the URL, which the user did not write.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
