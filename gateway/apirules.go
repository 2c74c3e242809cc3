package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
)

// WatchExposures calls apply with what all APIRules amount to, at once and after each change, one call at a time, until ctx ends.
type WatchExposures func(ctx context.Context, apply func([]apirule.Exposure)) error

// apiRules serves the hosts of APIRules.
type apiRules struct {
	watch     WatchExposures
	entrance  *entrance.Entrance
	exposed   *apirules.Exposed
	keys      *jwt.Keys
	plainKeys *plainKeys
	loaded    atomic.Bool
}

func newAPIRules(deps *Deps, options *Options, activators *activator.Activators, heads *forward.Heads) *apiRules {
	guard := dialguard.Guard{AllowLoopback: options.Activate.AllowLoopback}
	keys := jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now})
	a := &apiRules{
		watch: deps.Exposures, keys: keys, plainKeys: &plainKeys{log: deps.Log},
		exposed: apirules.New(apirules.Deps{
			Activate: func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration) {
				activators.Serve(w, r, function, activator.Call{Wait: wait, Stay: true})
			},
			Keys: keys, Endpoints: deps.Endpoints, Heads: heads, Guard: guard, Now: time.Now, Registry: deps.Registry, Log: deps.Log,
		}, options.Expose),
		entrance: entrance.New(entrance.Deps{Registry: deps.Registry, Log: deps.Log}, options.Entrance),
	}
	deps.Registry.MustRegister(keysCollector{keys, a.plainKeys})
	return a
}

// ready says why hosts are not served, or nil.
func (a *apiRules) ready() error {
	if !a.loaded.Load() {
		return errors.New("the APIRules are not known yet")
	}
	return a.entrance.Ready()
}

// follow keeps hosts and keys in step with the cluster. It outlives the last request.
func (a *apiRules) follow(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		a.keys.Run(ctx)
		return nil
	})
	group.Go(func() error {
		return a.watch(ctx, func(exposures []apirule.Exposure) {
			a.plainKeys.note(exposures)
			a.exposed.Set(exposures)
			a.loaded.Store(true)
		})
	})
	return group.Wait()
}

// report is what is loaded.
func (a *apiRules) report() apirule.Report {
	loaded := a.exposed.Loaded()
	report := apirule.Report{APIRules: make(map[string]apirule.Loaded, len(loaded))}
	for name, each := range loaded {
		told := apirule.Loaded{Fingerprint: each.Fingerprint}
		for _, problem := range each.Problems {
			told.Problems = append(told.Problems, apirule.LoadedProblem{
				Rule: int(problem.Closes) - 1, Attribute: problem.Attribute, Message: problem.Message,
			})
		}
		report.APIRules[name.String()] = told
	}
	return report
}
