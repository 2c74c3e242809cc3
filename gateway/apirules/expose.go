package apirules

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// Activate answers a request from the pods of a Function, for which it may wait so long. A request whose context ends with the cause
// context.DeadlineExceeded has run out of time: one that a pod has is not answered then, nor is one whose caller has gone.
type Activate func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration)

// Deps is what Exposed works with.
type Deps struct {
	Activate Activate
	// Keys are those of the issuers. Whoever made them runs them.
	Keys *jwt.Keys
	// Endpoints tell where Services can be reached that are no Functions; nil where APIRules lead to none.
	Endpoints Endpoints
	// Heads are those of answers; nil: its own.
	Heads *forward.Heads
	// Guard decides which addresses of Services are dialled.
	Guard    dialguard.Guard
	Now      func() time.Time
	Registry prometheus.Registerer
	Log      logr.Logger
}

// Options bounds what is served.
type Options struct {
	// Authorizers are those that rules may name. ParseAuthorizers makes valid ones.
	Authorizers []Authorizer
	// Requests is how many there may be at a time, of which the APIRules of a namespace take no more than they leave free.
	Requests int
	// RequestsPerAPIRule is how many of them are of one APIRule. A caller has half of these.
	RequestsPerAPIRule int
	// BodyTimeout is for how long a caller may send nothing of a body that he has announced.
	BodyTimeout time.Duration
}

// DefaultOptions are the values that a cluster runs with.
func DefaultOptions() Options {
	return Options{Requests: 4096, RequestsPerAPIRule: 2048, BodyTimeout: time.Minute}
}

// Exposed answers the requests of APIRules.
type Exposed struct {
	deps        Deps
	options     Options
	metrics     *metrics
	services    *services
	places      *httplimit.Places // of requests, by namespace, by APIRule, and by APIRule and caller
	authorizers map[string]*authorizer

	setting sync.Mutex // serializes Set
	current atomic.Pointer[table]
}

// New knows no APIRule before Set: every host is unknown.
func New(deps Deps, options Options) *Exposed {
	if deps.Heads == nil {
		deps.Heads = forward.NewHeads()
	}
	e := &Exposed{
		deps: deps, options: options, services: newServices(deps.Endpoints, deps.Guard), authorizers: authorizersOf(options.Authorizers),
	}
	e.places = httplimit.NewPlaces(options.Requests, 0, options.RequestsPerAPIRule, (options.RequestsPerAPIRule+1)/2)
	e.current.Store(newTable())
	e.metrics = newMetrics(deps.Registry, func() int { return e.current.Load().hosts() })
	return e
}

// Close ends the connections that are not in use.
func (e *Exposed) Close() {
	e.services.transport.CloseIdleConnections()
	for _, each := range e.authorizers {
		each.transport.CloseIdleConnections()
	}
}

// Set serves these Exposures and no others from now on. Requests that have begun go on as they were.
func (e *Exposed) Set(exposures []apirule.Exposure) {
	e.setting.Lock()
	defer e.setting.Unlock()
	next := e.compileAll(exposures, e.current.Load())
	e.deps.Keys.Use(next.uris())
	e.current.Store(next)
}

// ServeHTTP implements http.Handler. It adds the address of the connection to X-Forwarded-For, whose other addresses, and
// X-Forwarded-Proto, it believes. A request that cannot be answered is aborted.
func (e *Exposed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{all: e, began: time.Now(), w: &response{Writer: forward.NewWriter(w)}}
	defer x.finish()
	x.serve(r)
	x.w.AbortUnlessAnswered()
}
