package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/activation"
)

// Errors of homes.
var (
	// ErrUnauthenticated is returned for a request without a user. What wraps it says how to log in.
	ErrUnauthenticated = errors.New("not logged in")
	// ErrNotFound is returned for what does not exist, or must not be known to exist.
	ErrNotFound = errors.New("not found")
)

// User is the sender of a request.
type User struct {
	// Name is the name in logs, and the key of the user's share.
	Name string `json:"name"`
	// Changes reports that the user may change something.
	Changes bool `json:"changes"`
	// Namespace is the one that the user sees; empty for all that the home shows.
	Namespace string `json:"namespace,omitempty"`
	// Session reports that the user has logged in, and can log out.
	Session bool `json:"session,omitempty"`
	// Share is the name under which the user is limited; the name when empty.
	Share string `json:"-"`
	// Held is what the home holds for the user.
	Held any `json:"-"`
}

// share returns the name under which the user is limited.
func (u *User) share() string { return cmp.Or(u.Share, u.Name) }

// Access authenticates users.
type Access interface {
	// Authenticate returns the user of a request. It fails with ErrUnauthenticated.
	Authenticate(r *http.Request) (User, error)
}

// State has what exists now.
type State interface {
	// Snapshot returns what a user may see. It is called several times a second.
	Snapshot(ctx context.Context, user User) (Snapshot, error)
	// Function returns more about one Function. It fails with ErrNotFound.
	Function(ctx context.Context, user User, name types.NamespacedName) (FunctionDetail, error)
}

// Events has the records of what happened lately.
type Events interface {
	// Each calls yield with the records that a user may see, the oldest first, until it returns false.
	Each(ctx context.Context, user User, query journal.Query, yield func(journal.Record) bool)
	// Follow is Each and continues with new records until ctx ends.
	Follow(ctx context.Context, user User, query journal.Query, yield func(journal.Record))
	// Event returns an event with its data, as structured JSON. It fails with ErrNotFound when its data are not kept any more.
	Event(ctx context.Context, user User, source, id string) (json.RawMessage, error)
}

// Lines has what Functions print.
type Lines interface {
	// Follow calls handle with the last tail lines of all replicas, and then with each new one, until ctx ends.
	Follow(ctx context.Context, user User, function types.NamespacedName, tail int, handle func(Line))
	// FollowBuild is Follow for what builds the Function, or prepares it.
	FollowBuild(ctx context.Context, user User, function types.NamespacedName, tail int, handle func(Line))
}

// DeadLetters keeps the events that could not be delivered. Its errors are or wrap those of package failure.
type DeadLetters interface {
	List(ctx context.Context, user User, query admin.Query) (admin.Page, error)
	Get(ctx context.Context, user User, sequence uint64) (admin.DeadLetterDetail, error)
	Redrive(ctx context.Context, user User, selection admin.Selection) (admin.Redriven, error)
	Purge(ctx context.Context, user User, selection admin.Selection) (uint64, error)
}

// Publisher publishes an event, which is a CloudEvent in JSON. Its error is for the user.
type Publisher interface {
	Publish(ctx context.Context, user User, event []byte) error
}

// Caller calls a Function over HTTP. It fails with ErrNotFound; other errors are for the user.
type Caller interface {
	Call(ctx context.Context, user User, function types.NamespacedName, call Call) (CallAnswer, error)
}

// Call is a request to a Function.
type Call struct {
	Method      string `json:"method"`
	Path        string `json:"path"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
}

// CallAnswer is the answer of a Function.
type CallAnswer struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType"`
	// Body is the beginning of the body, where Cut is true.
	Body   string `json:"body"`
	Cut    bool   `json:"cut,omitempty"`
	TookMS int64  `json:"tookMs"`
}

// About is what does not change while a home runs.
type About struct {
	// Home is "local" or "cluster".
	Home string `json:"home"`
	// Name is the folder, or the cluster.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Publish is the URL that events are published to.
	Publish string `json:"publish,omitempty"`
	// LogIn says how to log in.
	LogIn string `json:"logIn"`
}

// Snapshot is what the pages show at one time. Each list is in the order of namespaces and names.
type Snapshot struct {
	Functions     []Function       `json:"functions"`
	Subscriptions []Subscription   `json:"subscriptions"`
	Exposures     []Exposure       `json:"exposures"`
	Schedules     []admin.Schedule `json:"schedules"`
	Streams       []Stream         `json:"streams"`
	Problems      []Problem        `json:"problems"`
	// Taken is when it was taken. One that was taken at the same time is the same; zero for one that is new each time.
	Taken time.Time `json:"-"`
}

// Function is a Function in a list.
type Function struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	// Phase is asleep, waking, ready, reloading, preparing or failing.
	Phase string `json:"phase"`
	// Doing is what it waits for, Problem why its newest version does not run; Older reports that an older one answers.
	Doing   string `json:"doing,omitempty"`
	Problem string `json:"problem,omitempty"`
	Older   bool   `json:"older,omitempty"`
	Desired int    `json:"desired"`
	Ready   int    `json:"ready"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	// Backlog is nil when it is unknown.
	Backlog *int `json:"backlog"`
	// Wakes and Restarts count since local mode began; nil in a cluster.
	Wakes    *int   `json:"wakes"`
	Restarts *int   `json:"restarts"`
	URL      string `json:"url,omitempty"`
	// Exposed lists the URLs of APIRules that lead to it.
	Exposed []string `json:"exposed,omitempty"`
	// LastWake is nil before the first one.
	LastWake *activation.Wake `json:"lastWake,omitempty"`
	// At is the file and line of its manifest.
	At string `json:"at,omitempty"`
}

// Subscription is a Subscription with its backlog.
type Subscription struct {
	Namespace    string                        `json:"namespace"`
	Name         string                        `json:"name"`
	Source       string                        `json:"source"`
	Types        []string                      `json:"types"`
	TypeMatching eventingv1alpha2.TypeMatching `json:"typeMatching,omitempty"`
	// Sink is a Function's namespace/name where Function is true, else a URL without credentials.
	Sink     string `json:"sink"`
	Function bool   `json:"function"`
	// State is preparing, ready, paused or failing, for the reason in Message.
	State       string `json:"state"`
	Message     string `json:"message,omitempty"`
	Backlog     uint64 `json:"backlog"`  // not delivered yet
	InFlight    uint64 `json:"inFlight"` // in delivery
	Retries     uint64 `json:"retries"`  // waiting for their next attempt
	DeadLetters uint64 `json:"deadLetters"`
}

// Exposure is an APIRule or a Door.
type Exposure struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	URL       string `json:"url,omitempty"` // empty when it is not served
	At        string `json:"at,omitempty"`
}

// Stream is a stream of events.
type Stream struct {
	Name string `json:"name"`
	// Fill is the used share of its limits, from 0 to 1; Problem why it is unknown.
	Fill    float64 `json:"fill"`
	Problem string  `json:"problem,omitempty"`
}

// Problem is something that a user has to mend.
type Problem struct {
	At      string `json:"at,omitempty"`
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	Warning bool   `json:"warning,omitempty"`
}

// Line is a line that a Function printed, or a message about it.
type Line struct {
	Time    time.Time `json:"time"`
	Replica string    `json:"replica,omitempty"`
	// Stream is stdout, stderr or rouse.
	Stream string `json:"stream"`
	Text   string `json:"text"`
}
