package target

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Inventory lists what there is.
type Inventory interface {
	// Functions lists those of a namespace, or of all for "".
	Functions(ctx context.Context, namespace string) ([]Function, error)
	// Exposed are the URLs of APIRules, by the Function's name. It is empty when they cannot be known.
	Exposed(ctx context.Context, namespace string) map[types.NamespacedName][]string
	// Subscriptions lists those of a namespace, or of all for "".
	Subscriptions(ctx context.Context, namespace string) ([]Subscription, error)
	// Namespaces lists those that names may be in.
	Namespaces(ctx context.Context) ([]string, error)
}

// Target is one Rouse.
type Target interface {
	Inventory

	// Publish is the URL of the publish endpoint.
	Publish(ctx context.Context) (url string, err error)
	// Admins are the admin APIs, one per bridge, at least one.
	Admins(ctx context.Context) ([]Admin, error)
	// Function is the URL of one that is awake, or woken by the call.
	Function(ctx context.Context, namespace, name string) (url string, err error)
	// Log calls handle with each line, one at a time, in the order of their time as far as that can be known.
	Log(ctx context.Context, namespace, name string, o LogOptions, handle func(Line)) error
	// Close closes what was opened.
	Close() error
}

// Admin is an API that asks for a token: that of one bridge, or of local mode.
type Admin struct {
	URL   string
	Token string
}

// Function is one of them as a list shows it.
type Function struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	Phase     string `json:"phase"`
	Ready     int    `json:"ready"`
	Desired   int    `json:"desired"`
	Backlog   *int64 `json:"backlog,omitempty"` // nil when it is not known
	URL       string `json:"url,omitempty"`     // in a cluster the one inside it
	LastError string `json:"lastError,omitempty"`

	// Exposed are the URLs of APIRules. The list of a cluster leaves them out, see Inventory.
	Exposed []string `json:"exposed,omitempty"`
}

// Subscription is one of them as a list shows it.
type Subscription struct {
	Namespace    string   `json:"namespace"`
	Name         string   `json:"name"`
	Source       string   `json:"source"`
	Types        []string `json:"types"`
	TypeMatching string   `json:"typeMatching,omitempty"` // exact, or standard when empty
	Sink         string   `json:"sink"`                   // without a login
	State        string   `json:"state"`                  // preparing, ready, paused or failing
	Message      string   `json:"message,omitempty"`      // what is wrong
}

// LogOptions select lines.
type LogOptions struct {
	Tail   int           // lines of the past per replica; negative: all there are
	Since  time.Duration // how far back; 0: as far as it goes
	Follow bool          // until ctx ends
}

// Line is one line of a Function's log.
type Line struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Function  string    `json:"function"`
	Replica   string    `json:"replica"`
	Stream    string    `json:"stream"` // stdout, stderr, or rouse for what Rouse reports about it
	Text      string    `json:"text"`
}
