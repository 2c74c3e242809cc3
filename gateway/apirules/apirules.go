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

// Activate serves a request from the pods of a Function, for which it may wait for up to wait. A request whose context
// ended with the cause context.DeadlineExceeded ran out of time: once a pod has it, it gets no response, as if its
// caller had gone.
type Activate func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration)

// Deps are the dependencies of an Server.
type Deps struct {
	Activate Activate
	// Keys are the keys of token issuers. Their creator runs them.
	Keys *jwt.Keys
	// Endpoints watches Services that are not Functions; nil where APIRules lead to none.
	Endpoints Endpoints
	// Heads accounts response heads; nil: its own.
	Heads *forward.Heads
	// Guard decides which addresses of Services may be dialled.
	Guard dialguard.Guard
	// DoorToken returns the token by which bridges recognise a gateway; nil where there are no Doors.
	DoorToken func() (string, error)
	// Doors takes the requests to Doors in this process; nil: their Service does.
	Doors    http.Handler
	Now      func() time.Time
	Registry prometheus.Registerer
	Log      logr.Logger
}

// Options bounds the requests to APIRules.
type Options struct {
	// Authorizers are the authorizers that rules may refer to; see ParseAuthorizers.
	Authorizers []Authorizer
	// Requests bounds concurrent requests. The APIRules of a namespace take at most as many as they leave free.
	Requests int
	// RequestsPerAPIRule bounds the concurrent requests of one APIRule. A caller gets half of them.
	RequestsPerAPIRule int
	// BodyTimeout bounds how long a caller may send nothing of an announced body.
	BodyTimeout time.Duration
}

// DefaultOptions returns the defaults in a cluster.
func DefaultOptions() Options {
	return Options{Requests: 4096, RequestsPerAPIRule: 2048, BodyTimeout: time.Minute}
}

// Server serves the requests of APIRules.
type Server struct {
	deps        Deps
	options     Options
	metrics     *metrics
	services    *forward.Transport
	places      *httplimit.Places // of requests, per namespace, per APIRule, and per APIRule and caller
	authorizers map[string]*authorizer

	setting sync.Mutex // serializes Set
	current atomic.Pointer[table]
}

// New returns an Server without APIRules: every host is unknown before Set.
func New(deps Deps, options Options) *Server {
	if deps.Heads == nil {
		deps.Heads = forward.NewHeads()
	}
	s := &Server{deps: deps, options: options, authorizers: authorizersOf(options.Authorizers)}
	s.services = forward.NewTransport((&pods{deps.Endpoints, deps.Guard}).dial, false)
	s.places = httplimit.NewPlaces(options.Requests, 0, options.RequestsPerAPIRule, (options.RequestsPerAPIRule+1)/2)
	s.current.Store(newTable())
	s.metrics = newMetrics(deps.Registry, func() int { return s.current.Load().hosts() })
	return s
}

// Close closes the idle connections.
func (s *Server) Close() {
	s.services.CloseIdleConnections()
	for _, each := range s.authorizers {
		each.transport.CloseIdleConnections()
	}
}

// Set replaces the served exposures. Requests in progress continue with the previous ones.
func (s *Server) Set(exposures []apirule.Exposure) {
	s.setting.Lock()
	defer s.setting.Unlock()
	next := s.compileAll(exposures, s.current.Load())
	s.deps.Keys.Use(next.uris())
	s.current.Store(next)
}

// ServeHTTP implements http.Handler. It adds the connection's address to X-Forwarded-For and trusts its other addresses
// and X-Forwarded-Proto. It aborts a request that cannot be answered.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{all: s, began: time.Now(), w: &response{Writer: forward.NewWriter(w)}}
	defer x.finish()
	x.serve(r)
	x.w.AbortUnlessAnswered()
}

// table is an immutable set of served hosts.
type table struct {
	exact    map[string]*host
	wildcard map[string]*host // by the name after the asterisk and its dot
	loaded   map[types.NamespacedName]*host
}

func newTable() *table {
	return &table{exact: map[string]*host{}, wildcard: map[string]*host{}, loaded: map[types.NamespacedName]*host{}}
}

// compileAll reuses the unchanged hosts of before, including the validators' caches of tokens and the counts of
// requests.
func (s *Server) compileAll(exposures []apirule.Exposure, before *table) *table {
	next := newTable()
	for i := range exposures {
		each := &exposures[i]
		fingerprint, err := each.Fingerprint()
		if err != nil { // it cannot be identified, so it must not be served
			s.deps.Log.Error(err, "cannot load an APIRule", "namespace", each.APIRule.Namespace, "apirule", each.APIRule.Name)
			continue
		}
		compiled := before.loaded[each.APIRule]
		if compiled == nil || compiled.fingerprint != fingerprint {
			compiled = s.compile(each, fingerprint)
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

// AsksCertificate reports whether clients of a host may present certificates.
func (s *Server) AsksCertificate(serverName string) bool {
	h := s.current.Load().find(strings.ToLower(serverName))
	return h != nil && h.asks
}

func (t *table) hosts() int { return len(t.exact) + len(t.wildcard) }

// find returns the most specific host for a name.
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

// uris returns the URIs of issuers' keys with the namespaces that refer to them.
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

// maxHost bounds the host of a request.
const maxHost = 255

const wildcard = "*."

// host is a compiled Exposure. It is immutable.
type host struct {
	apiRule     types.NamespacedName
	id          string // of the APIRule
	fingerprint string
	name        string // empty: nothing is served
	asks        bool   // clients may present certificates
	cors        *cors
	routes      []apirule.Route // of the rules, in order
	rules       []rule
	problems    apirule.Problems
}

// enter takes places for a request: of its namespace, of its APIRule, and of the caller's part of these.
func (x *exchange) enter(h *host, r *http.Request) bool {
	from := forward.Of(r)
	ok, evicted := x.all.places.Take(&x.place, from,
		httplimit.Key{Name: h.apiRule.Namespace}, httplimit.Key{Name: h.id}, httplimit.Key{Name: h.id + " " + from.Key.Name, Unshared: from.Key.Unshared})
	x.all.metrics.evicted.Add(float64(evicted))
	return ok
}

// hostOf returns the host of an authority, without its port, in lower case.
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

// staleAfter is the age of keys at which a failure to fetch them is reported.
const staleAfter = time.Hour

// Loaded is the state of an exposure in this gateway.
type Loaded struct {
	Fingerprint string
	// Problems are problems that only a gateway sees. Closes names the rule that a problem is about, which is still
	// served if possible.
	Problems apirule.Problems
}

// Loaded returns the state of all exposures.
func (s *Server) Loaded() map[types.NamespacedName]Loaded {
	states := map[string]jwt.State{}
	for _, state := range s.deps.Keys.States() {
		states[state.URI] = state
	}
	t := s.current.Load()
	all := make(map[types.NamespacedName]Loaded, len(t.loaded))
	for name, h := range t.loaded {
		all[name] = Loaded{Fingerprint: h.fingerprint, Problems: h.problemsWith(states)}
	}
	return all
}

// problemsWith returns the host's problems and those of its issuers.
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

// wordsFor returns the problem of an issuer's keys, or nothing.
func wordsFor(state jwt.State) string {
	switch {
	case state.Err != nil && (state.Keys == 0 || state.Age >= staleAfter):
		return fmt.Sprintf("Its keys cannot be fetched, and tokens by them are refused: %v", state.Err)
	case state.Refused != nil:
		return fmt.Sprintf("Not all of its keys are used, and tokens by the others are refused: %v", state.Refused)
	}
	return ""
}

// outcome is how a request ended, a label of its metric.
type outcome string

const (
	served       outcome = "served" // whatever the backend or the Function's activator responded
	notFound     outcome = "not_found"
	misdirected  outcome = "misdirected"
	preflight    outcome = "preflight"
	denied       outcome = "denied"
	unauthorized outcome = "unauthorized"
	closed       outcome = "closed"
	overload     outcome = "overload"
	timedOut     outcome = "timeout"
	unreachable  outcome = "unreachable"
	clientGone   outcome = "client_gone"
	unfinished   outcome = "unfinished" // the request body was not read to its end
)

// requestBuckets range from the response of a warm backend to the longest timeout of a rule.
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
			Help: "Requests to APIRules that have ended, by how (served, not_found, misdirected, preflight, denied, unauthorized, closed, overload, " +
				"timeout, unreachable, client_gone or unfinished) and by the class of the status.",
		}, []string{"outcome", "code"}),
		evicted: factory.NewCounter(prometheus.CounterOpts{
			Name: "rouse_gateway_exposed_evicted_total",
			Help: "Requests of the slowest callers that were aborted to make room for others of their namespace, APIRule or caller.",
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
