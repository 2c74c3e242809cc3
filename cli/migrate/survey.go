package migrate

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/migration"
)

// Survey is what a cluster has.
type Survey struct {
	Cluster   string
	Namespace string // of Rouse
	// HostsMoved is true when the user has confirmed that the DNS of all hosts of APIRules points to Rouse.
	HostsMoved bool
	Order      migration.Order
	Now        time.Time

	Release       Release
	Controllers   []Controller
	Functions     []Function
	Subscriptions []Subscription
	NATS          target.Kyma
	Work          []target.Work
	Delayed       int    // events that are due later
	Unread        string // why NATS was not read
	Uncounted     string // why the work of Subscriptions was not
	Publisher     Publisher
	APIRules      []APIRule
	NoAPIRules    string // why they cannot be read as v2
	Modules       []Module
	Relics        []Relic
	OnlyOurs      []Difference // what Kyma does not have, and what to do about it
	Activators    []Object     // slices by which gateways wake Functions
}

// Object is an object of the cluster.
type Object struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"-"`

	resource schema.GroupVersionResource
}

// String returns Kind namespace/name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// key is namespace/name.
func (o Object) key() string { return o.Namespace + "/" + o.Name }

// Release is the installed Rouse.
type Release struct {
	Helm  string            // name of the Helm release, empty when another tool applied it
	Flags map[string]string // of the controller
	Runs  bool              // a controller is ready
	// Controllers are those of Rouse, in the order in which they are stopped.
	Controllers []Workload
	// Operates is true where Rouse's operator serves the Serverlesses.
	Operates bool
}

// has reports whether a flag is set.
func (r Release) has(name string) bool {
	_, set := r.Flags[name]
	return set
}

// Controller is one of Kyma's controllers that has pods, or is to have some.
type Controller struct {
	Object
	Effect string // what it would do to Rouse's objects
}

// Function is a Function with what runs it.
type Function struct {
	Object
	Replicas *int32
	Scales   bool // it has a scaleConfig
	Override bool // it has an image of its own
	// GitSecret is the name of the Secret by which its Git source is fetched.
	GitSecret string
	// Ours is Rouse's Deployment, nil before there is one.
	Ours *Workload
	// Old are Kyma's Deployments, and Rest the other objects that Kyma's controllers have made for it.
	Old  []Workload
	Rest []Object
	// Made are the other objects that Rouse has made for it.
	Made []Object
	// Problem is why Rouse's does not run, by the Function's conditions.
	Problem string
	// OnlyOurs names the fields that Kyma does not have.
	OnlyOurs []string
}

// Workload is a Deployment of a Function.
type Workload struct {
	Object
	Desired, Available int32
	Current            bool              // its pods have its template
	Resources          map[string]string // requests and limits
}

// Subscription is a Subscription as Rouse and Kyma see it.
type Subscription struct {
	Object
	Ready   bool
	Problem string // why it is not ready, or cannot be moved
	Invalid bool   // Rouse gives it no consumer
	Types   int
	// OnlyOurs names the fields that Kyma does not have.
	OnlyOurs []string
	// Retries and DeadLetters are events that Kyma has no place for.
	Retries, DeadLetters uint64
	Consumer             bool // Rouse's exists
}

// Publisher is the way of publishers with Kyma's address.
type Publisher struct {
	Service  *Object // nil: there is none
	Owned    bool    // it is of the release
	Selects  bool    // it has Kyma's selector
	Aliased  bool    // Rouse's endpoints are listed
	Stale    []Object
	Workload *Object // Kyma's publisher
}

// APIRule is an APIRule with the objects of Kyma's API gateway.
type APIRule struct {
	Object
	Host      string
	Gateway   string // namespace/name
	Ready     bool   // Rouse's gateways serve it
	Problem   string
	Finalizer bool   // Kyma's
	released  string // a patch without it
	OldSpec   string // a patch with the spec that only an annotation has; empty when there is a spec
	NoSpec    string // why that cannot be converted
	Rest      []Object
}

// Module is a resource by which one of Kyma's operators installed something.
type Module struct {
	Object
	Finalizer bool   // Kyma's
	released  string // a patch without it
	EventMesh bool   // an Eventing whose events are not in NATS
}

// Relic is something of Kyma's users that has another place now.
type Relic struct {
	Object
	Now string
}

// began is when the move began: now, unless it is under way.
func (s *Survey) began() time.Time {
	if s.Order.Ended == nil && !s.Order.Began.IsZero() {
		return s.Order.Began
	}
	return s.Now
}
