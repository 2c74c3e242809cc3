package dev

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/door"
)

const (
	// drainTimeout bounds how long requests in flight may take at shutdown.
	drainTimeout = 200 * time.Millisecond
	// apiRulesInterval is the interval at which the keys of token issuers are checked.
	apiRulesInterval = 500 * time.Millisecond
)

// apiRulesDeps holds the dependencies of APIRules.
type apiRulesDeps struct {
	// Listener accepts the requests. It has to be on loopback.
	Listener net.Listener
	// Serve forwards a request to a Function.
	Serve apirules.Activate
	// Doors takes the requests to Doors.
	Doors http.Handler
	Log   logr.Logger
}

// APIRules serves the APIRules of a folder.
type APIRules struct {
	port     int
	keys     *jwt.Keys
	exposed  *apirules.Server
	entrance *entrance.Entrance

	mu      sync.Mutex
	wanted  wantedAPIRules
	state   state
	changed chan struct{} // closed and replaced when the state changes
}

// newAPIRules returns APIRules that serve nothing before Run.
func newAPIRules(deps apiRulesDeps) *APIRules {
	guard := dialguard.Guard{AllowLoopback: true} // the user is the tenant, and issuers may be on this machine
	registry := daemon.NewRegistry()
	a := &APIRules{changed: make(chan struct{}), keys: jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now})}
	if address, ok := deps.Listener.Addr().(*net.TCPAddr); ok {
		a.port = address.Port
	}
	a.exposed = apirules.New(apirules.Deps{
		Activate: deps.Serve, Doors: deps.Doors, Keys: a.keys, Guard: guard, Now: time.Now, Registry: registry, Log: deps.Log,
	}, apirules.DefaultOptions())
	options := entrance.DefaultOptions()
	options.HTTPAddress, options.DrainTimeout = "", drainTimeout
	a.entrance = entrance.New(entrance.Deps{HTTP: deps.Listener, Registry: registry, Log: deps.Log}, options)
	return a
}

// Apply sets the APIRules of the folder.
func (a *APIRules) Apply(set manifest.Set, problems []manifest.Problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = wantAPIRules(set, problems, a.wanted)
	exposures := a.wanted.decide()
	a.exposed.Set(exposures)
	a.state = a.wanted.state(exposures, a.port)
	a.state.loaded = a.loaded()
	a.announce()
}

// Run serves requests until ctx ends.
func (a *APIRules) Run(ctx context.Context) error {
	defer a.exposed.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.entrance.Run(ctx, a.withLocalHosts(a.exposed)) })
	group.Go(func() error {
		a.keys.Run(ctx)
		return nil
	})
	group.Go(func() error { return a.check(ctx) })
	return group.Wait()
}

// check publishes problems that show only while requests are served.
func (a *APIRules) check(ctx context.Context) error {
	ticker := time.NewTicker(apiRulesInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		a.mu.Lock()
		if loaded := a.loaded(); !slices.Equal(loaded, a.state.loaded) {
			a.state.loaded = loaded
			a.announce()
		}
		a.mu.Unlock()
	}
}

// loaded returns the problems that show only while requests are served. The caller holds the lock.
func (a *APIRules) loaded() []manifest.Problem {
	var found []manifest.Problem
	for name, each := range a.exposed.Loaded() {
		for _, problem := range each.Problems {
			if a.state.closed[part{name, problem.Closes}] {
				continue // why was reported
			}
			if apirule.IsDoorRule(name.Name) {
				continue // the bridge refuses what it cannot verify
			}
			shown := a.wanted.rules[name].Problem(problem.Attribute, problem.Message, "")
			shown.Warning = true
			found = append(found, shown)
		}
	}
	slices.SortFunc(found, func(a, b manifest.Problem) int { return strings.Compare(a.Error(), b.Error()) })
	return found
}

// announce notifies those who wait for a change. The caller holds the lock.
func (a *APIRules) announce() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// Status returns all APIRules by name.
func (a *APIRules) Status() []apiRuleStatus { return a.now().rules }

// Problems returns the problems of APIRules that a cluster would accept.
func (a *APIRules) Problems() []manifest.Problem {
	s := a.now()
	return slices.Concat(s.decided, s.loaded)
}

// URLs returns the URLs that lead to a Function, in the order of the rules.
func (a *APIRules) URLs(function types.NamespacedName) []string { return a.now().urls[function] }

// Changed returns a channel that is closed at the next change.
func (a *APIRules) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *APIRules) now() state {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// doorService stands for this process, which takes the requests to Doors.
var doorService = apirule.Target{Service: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-doors"}, Port: door.ServicePort}

const (
	kindAPIRule  = "APIRule"
	kindFunction = "Function"
	kindDoor     = "Door"
	// domain is the domain of all gateways: browsers and curl resolve its names to this machine.
	domain = "localhost"
	// everyone lets every namespace refer to the Functions of a folder, because there are no Services to annotate.
	everyone     = "*"
	loopbackHost = "127.0.0.1"
)

// wantedAPIRules is the desired state in the folder.
type wantedAPIRules struct {
	rules     map[types.NamespacedName]manifest.APIRule
	doors     []manifest.Door
	functions map[types.NamespacedName]bool
}

// wantAPIRules returns the desired state in a set. An APIRule that cannot be read any more stays as it was before.
func wantAPIRules(set manifest.Set, problems []manifest.Problem, before wantedAPIRules) wantedAPIRules {
	doubtful := func(kind string, name types.NamespacedName) bool {
		return slices.ContainsFunc(problems, func(p manifest.Problem) bool { return p.Concerns(kind, name.Namespace, name.Name) })
	}
	now := wantedAPIRules{rules: map[types.NamespacedName]manifest.APIRule{}, functions: map[types.NamespacedName]bool{}}
	for name, rule := range before.rules {
		if doubtful(kindAPIRule, name) {
			now.rules[name] = rule
		}
	}
	for name := range before.functions {
		if doubtful(kindFunction, name) {
			now.functions[name] = true
		}
	}
	for _, rule := range set.APIRules {
		now.rules[types.NamespacedName{Namespace: rule.Namespace, Name: rule.Name}] = rule
	}
	now.doors = set.Doors
	for _, fn := range set.Functions {
		now.functions[types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}] = true
	}
	return now
}

// decide returns the exposures. Files have no creation time, so that of two APIRules with one host the first by name gets it.
func (w wantedAPIRules) decide() []apirule.Exposure {
	rules := make([]*gatewayv2.APIRule, 0, len(w.rules))
	for rule := range maps.Values(w.rules) {
		rules = append(rules, rule.APIRule)
	}
	around, exposed := w.cluster(), w.exposed()
	around.Doors, around.DoorService = exposed.Of, doorService
	return apirule.Decide(append(rules, exposed.Rules...), around)
}

// exposed returns the rules of the folder's Doors, whose requests this process takes.
func (w wantedAPIRules) exposed() apirule.DoorRules {
	all := make([]*rousev1alpha1.Door, len(w.doors))
	for i := range w.doors {
		all[i] = w.doors[i].Door
	}
	return apirule.ExposeDoors(all, doorService)
}

// cluster returns the objects that APIRules refer to.
func (w wantedAPIRules) cluster() *apirule.Objects {
	around := &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{}, Services: map[types.NamespacedName]apirule.ServiceInfo{},
	}
	named := []string{}
	for rule := range maps.Values(w.rules) {
		if rule.Spec.Gateway != nil {
			named = append(named, *rule.Spec.Gateway)
		}
	}
	for i := range w.doors {
		named = append(named, w.doors[i].Spec.Gateway)
	}
	for _, gateway := range named {
		namespace, name, _ := strings.Cut(gateway, "/")
		around.Gateways[types.NamespacedName{Namespace: namespace, Name: name}] = apirule.Gateway{Hosts: []string{"*." + domain}}
	}
	for name := range w.functions {
		around.Services[name] = apirule.ServiceInfo{
			Selects: true, Wakes: true, Address: loopbackHost, Ports: []int32{activation.ServicePort}, From: []string{everyone},
		}
	}
	return around
}

const (
	notServed  = "correct it: until then this APIRule is not served"
	ruleClosed = "its rule answers 503: local mode has the Functions of the folder, and no authorizers"
)

// apiRuleStatus is the status of an APIRule or a Door.
type apiRuleStatus struct {
	Namespace, Name string
	// Kind is empty for an APIRule.
	Kind string
	// URL of the host; empty when the APIRule is not served.
	URL string
	At  manifest.Position
}

// state is an immutable snapshot of the served APIRules.
type state struct {
	rules   []apiRuleStatus
	urls    map[types.NamespacedName][]string // by Function
	decided []manifest.Problem
	// localHosts has the hosts of other domains by their names below localhost.
	localHosts map[string]string
	closed     map[part]bool      // the hosts and rules that they close
	loaded     []manifest.Problem // those that show only while they are served
}

// part identifies a rule of an APIRule, or the APIRule.
type part struct {
	apiRule types.NamespacedName
	of      apirule.Closed
}

func (w wantedAPIRules) state(exposures []apirule.Exposure, port int) state {
	s := state{urls: map[types.NamespacedName][]string{}, closed: map[part]bool{}, localHosts: localHosts(exposures)}
	hosts := map[types.NamespacedName]*apirule.Exposure{}
	for i := range exposures {
		e := &exposures[i]
		if apirule.IsDoorRule(e.APIRule.Name) {
			hosts[e.APIRule] = e
			continue
		}
		rule := w.rules[e.APIRule]
		status := apiRuleStatus{Namespace: e.APIRule.Namespace, Name: e.APIRule.Name, At: rule.At}
		if e.Host != "" {
			status.URL = localURL(e.Host, port)
		}
		s.rules = append(s.rules, status)
		s.decided = append(s.decided, problemsOf(rule, e.Problems)...)
		for _, problem := range e.Problems {
			s.closed[part{e.APIRule, problem.Closes}] = true
		}
		for _, each := range e.Rules {
			s.add(each, status.URL)
		}
	}
	taken := w.exposed().Taken
	for _, each := range w.doors {
		s.addDoor(each, hosts[apirule.DoorRuleOf(each.Door)], taken, port)
	}
	return s
}

// addDoor adds where the requests to a Door arrive, or why none do.
func (s *state) addDoor(d manifest.Door, host *apirule.Exposure, taken map[types.NamespacedName]string, port int) {
	name := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	status := apiRuleStatus{Namespace: d.Namespace, Name: d.Name, Kind: kindDoor, At: d.At}
	switch {
	case taken[name] != "":
		s.decided = append(s.decided, d.Problem("spec.path", "Door "+taken[name]+" has the same host and path", "choose another path"))
	case host == nil || host.Host == "":
		if host != nil {
			s.decided = append(s.decided, d.Problem("spec.host", host.Problems.String(), "choose another host"))
		}
	default:
		status.URL = localURL(host.Host, port) + door.Paths(d.Door)[0]
	}
	s.rules = append(s.rules, status)
}

// add adds a URL at which a Function can be called.
func (s *state) add(rule apirule.Rule, url string) {
	if rule.Closed {
		return
	}
	path := rule.Spec.Path
	if path == "/*" {
		path = "/"
	}
	if url += path; !slices.Contains(s.urls[rule.Backend.Service], url) {
		s.urls[rule.Backend.Service] = append(s.urls[rule.Backend.Service], url)
	}
}

// problemsOf adds positions to problems. A problem that closes one rule is a warning, because the rest is served.
func problemsOf(rule manifest.APIRule, problems apirule.Problems) []manifest.Problem {
	var found []manifest.Problem
	for _, each := range problems {
		advice := notServed
		if each.Closes != apirule.All {
			advice = ruleClosed
		}
		problem := rule.Problem(each.Attribute, each.Message, advice)
		problem.Warning = each.Closes != apirule.All
		found = append(found, problem)
	}
	return found
}
