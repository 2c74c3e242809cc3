package dev

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/dialguard"
)

const (
	// drainTimeout is how long the last answers may take at the end.
	drainTimeout = 200 * time.Millisecond
	// apiRulesInterval is how often it is looked whether keys of issuers came or did not.
	apiRulesInterval = 500 * time.Millisecond
)

// apiRulesDeps is what APIRules work with.
type apiRulesDeps struct {
	// Listener takes the requests. It has to be on loopback.
	Listener net.Listener
	// Serve answers from a Function.
	Serve apirules.Activate
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
	changed chan struct{} // closed and replaced when the state is another
}

// newAPIRules makes APIRules that answer nothing before Run.
func newAPIRules(deps apiRulesDeps) *APIRules {
	guard := dialguard.Guard{AllowLoopback: true} // the user is the tenant, and issuers may be on this machine
	registry := daemon.NewRegistry()
	a := &APIRules{changed: make(chan struct{}), keys: jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now})}
	if address, ok := deps.Listener.Addr().(*net.TCPAddr); ok {
		a.port = address.Port
	}
	a.exposed = apirules.New(apirules.Deps{
		Activate: deps.Serve, Keys: a.keys, Guard: guard, Now: time.Now, Registry: registry, Log: deps.Log,
	}, apirules.DefaultOptions())
	options := entrance.DefaultOptions()
	options.HTTPAddress, options.DrainTimeout = "", drainTimeout
	a.entrance = entrance.New(entrance.Deps{HTTP: deps.Listener, Registry: registry, Log: deps.Log}, options)
	return a
}

// Apply sets what the folder asks for now.
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

// Run answers until ctx ends.
func (a *APIRules) Run(ctx context.Context) error {
	defer a.exposed.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.entrance.Run(ctx, a.exposed) })
	group.Go(func() error {
		a.keys.Run(ctx)
		return nil
	})
	group.Go(func() error { return a.check(ctx) })
	return group.Wait()
}

// check follows what becomes known while requests are answered.
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

// loaded are the problems that show only where requests are answered; called with the lock held.
func (a *APIRules) loaded() []manifest.Problem {
	var found []manifest.Problem
	for name, each := range a.exposed.Loaded() {
		for _, problem := range each.Problems {
			if a.state.closed[part{name, problem.Closes}] {
				continue // why was reported
			}
			shown := a.wanted.rules[name].Problem(problem.Attribute, problem.Message, "")
			shown.Warning = true
			found = append(found, shown)
		}
	}
	slices.SortFunc(found, func(a, b manifest.Problem) int { return strings.Compare(a.Error(), b.Error()) })
	return found
}

// announce is called with the lock held.
func (a *APIRules) announce() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// apiRuleStatus lists all APIRules by name.
func (a *APIRules) Status() []apiRuleStatus { return a.now().rules }

// Problems are what is wrong with those that a cluster would accept.
func (a *APIRules) Problems() []manifest.Problem {
	s := a.now()
	return slices.Concat(s.decided, s.loaded)
}

// URLs are those that lead to a Function, in the order of the rules.
func (a *APIRules) URLs(function types.NamespacedName) []string { return a.now().urls[function] }

// Changed is closed when something has changed since the call.
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
