package apirules

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// table is all that is served at a time. It does not change.
type table struct {
	exact    map[string]*host
	wildcard map[string]*host // by what follows the asterisk and its dot
	loaded   map[types.NamespacedName]*host
}

func newTable() *table {
	return &table{exact: map[string]*host{}, wildcard: map[string]*host{}, loaded: map[types.NamespacedName]*host{}}
}

// compileAll takes over what did not change, validators with what they know of tokens and counts of requests included.
func (e *Exposed) compileAll(exposures []apirule.Exposure, before *table) *table {
	next := newTable()
	for i := range exposures {
		each := &exposures[i]
		fingerprint, err := each.Fingerprint()
		if err != nil { // it cannot be told, so it must not be served
			e.deps.Log.Error(err, "cannot load an APIRule", "namespace", each.APIRule.Namespace, "apirule", each.APIRule.Name)
			continue
		}
		compiled := before.loaded[each.APIRule]
		if compiled == nil || compiled.fingerprint != fingerprint {
			compiled = e.compile(each, fingerprint)
		}
		next.add(compiled)
	}
	return next
}

func (t *table) add(h *host) {
	t.loaded[h.apiRule] = h
	names, name := t.exact, h.name
	if rest, ok := strings.CutPrefix(name, wildcard); ok {
		names, name = t.wildcard, rest
	}
	if _, taken := names[name]; name != "" && !taken {
		names[name] = h
	}
}

func (t *table) hosts() int { return len(t.exact) + len(t.wildcard) }

// find returns what serves a host: the most specific one, and no other.
func (t *table) find(name string) *host {
	if h := t.exact[name]; h != nil {
		return h
	}
	for {
		_, rest, found := strings.Cut(name, ".")
		if !found {
			return nil
		}
		if h := t.wildcard[rest]; h != nil && len(name) > len(rest)+1 {
			return h
		}
		name = rest
	}
}

// uris lists where the keys of issuers are, by the namespaces of those who name them.
func (t *table) uris() map[string][]string {
	all := map[string][]string{}
	for _, h := range t.loaded {
		for i := range h.rules {
			all[h.apiRule.Namespace] = append(all[h.apiRule.Namespace], h.rules[i].keyURIs...)
		}
	}
	for namespace, uris := range all {
		slices.Sort(uris)
		all[namespace] = slices.Compact(uris)
	}
	return all
}

// maxHost is how long a host of requests may be.
const maxHost = 255

const wildcard = "*."

// host is an Exposure as requests need it. It does not change.
type host struct {
	apiRule     types.NamespacedName
	id          string // of the APIRule
	fingerprint string
	name        string // empty: nothing is served
	cors        *cors
	routes      []apirule.Route // of the rules, in their order
	rules       []rule
	problems    apirule.Problems
}

// enter takes a place for a request: one of its namespace, one of its APIRule, and of these one of its caller.
func (x *exchange) enter(h *host, r *http.Request) bool {
	from := forward.Of(r)
	ok, evicted := x.all.places.Take(&x.place, from,
		httplimit.Key{Name: h.apiRule.Namespace}, httplimit.Key{Name: h.id}, httplimit.Key{Name: h.id + " " + from.Key.Name, Unshared: from.Key.Unshared})
	x.all.metrics.evicted.Add(float64(evicted))
	return ok
}

// hostOf is the host that a request names, without its port, in lower case.
func hostOf(authority string) string {
	name := authority
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:colon]
	}
	if len(name) > maxHost {
		return ""
	}
	return strings.ToLower(name)
}

// staleAfter is how old keys may be before it is said that they cannot be fetched any more.
const staleAfter = time.Hour

// Loaded is what became of an Exposure.
type Loaded struct {
	Fingerprint string
	// Problems are those that only a gateway sees. Closes names the rule that each is about, which answers all the same where it
	// can.
	Problems apirule.Problems
}

// Loaded tells what is served.
func (e *Exposed) Loaded() map[types.NamespacedName]Loaded {
	states := map[string]jwt.State{}
	for _, state := range e.deps.Keys.States() {
		states[state.URI] = state
	}
	t := e.current.Load()
	all := make(map[types.NamespacedName]Loaded, len(t.loaded))
	for name, h := range t.loaded {
		all[name] = Loaded{Fingerprint: h.fingerprint, Problems: h.problemsWith(states)}
	}
	return all
}

// problemsWith adds those of issuers.
func (h *host) problemsWith(states map[string]jwt.State) apirule.Problems {
	problems := slices.Clip(h.problems)
	for i := range h.rules {
		for j, uri := range h.rules[i].keyURIs {
			state, fetched := states[uri]
			if !fetched {
				state.Err = jwt.ErrManyURIs
			}
			message := wordsFor(state)
			if message == "" {
				continue
			}
			field := "jwt"
			if len(h.rules[i].authorizers) > 0 {
				field = "extAuth.restrictions"
			}
			problems = append(problems, apirule.Problem{
				Attribute: fmt.Sprintf(".spec.rules[%d].%s.authentications[%d].jwksUri", i, field, j),
				Message:   message,
				Closes:    apirule.RuleAt(i),
			})
		}
	}
	return problems
}

// wordsFor is what there is to say of an issuer's keys, or nothing.
func wordsFor(state jwt.State) string {
	switch {
	case state.Err != nil && (state.Keys == 0 || state.Age >= staleAfter):
		return fmt.Sprintf("Its keys cannot be fetched, and tokens by them are refused: %v", state.Err)
	case state.Refused != nil:
		return fmt.Sprintf("Not all of its keys are used, and tokens by the others are refused: %v", state.Refused)
	}
	return ""
}

// outcome is how a request ended, the label of its metric.
type outcome string

const (
	served       outcome = "served" // whatever the backend, or the activator of a Function, has answered
	notFound     outcome = "not_found"
	preflight    outcome = "preflight"
	denied       outcome = "denied"
	unauthorized outcome = "unauthorized"
	closed       outcome = "closed"
	overload     outcome = "overload"
	timedOut     outcome = "timeout"
	unreachable  outcome = "unreachable"
	clientGone   outcome = "client_gone"
	unfinished   outcome = "unfinished" // the body of the request did not reach its end
)

// requestBuckets reach from an answer of a warm backend to the longest timeout of a rule.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600, 3900}

type metrics struct {
	requests *prometheus.CounterVec
	evicted  prometheus.Counter
	seconds  prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, hosts func() int) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_gateway_exposed_hosts", Help: "Hosts of APIRules that are served.",
	}, func() float64 { return float64(hosts()) })
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_exposed_requests_total",
			Help: "Requests to APIRules that have ended, by how (served, not_found, preflight, denied, unauthorized, closed, overload, " +
				"timeout, unreachable, client_gone or unfinished) and by the class of the status.",
		}, []string{"outcome", "code"}),
		evicted: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_exposed_evicted_total",
			Help: "Requests that were ended for further ones of their namespace, APIRule or caller, as their callers were slowest.",
		}),
		seconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "rouse_gateway_exposed_request_seconds",
			Help:    "Time from the headers of a request to an APIRule to the end of its answer.",
			Buckets: requestBuckets,
		}),
	}
}

func (m *metrics) finished(how outcome, status int, took time.Duration) {
	const class = 100
	m.requests.WithLabelValues(string(how), strconv.Itoa(status/class)+"xx").Inc()
	m.seconds.Observe(took.Seconds())
}
