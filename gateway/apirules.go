package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/activate"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/gateway/expose"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/exposure"
)

// WatchExposures calls apply with what all APIRules amount to, at once and after each change, one call at a time, until ctx ends.
type WatchExposures func(ctx context.Context, apply func([]exposure.Exposure)) error

// apiRules serves the hosts of APIRules.
type apiRules struct {
	watch     WatchExposures
	entrance  *entrance.Entrance
	exposed   *expose.Exposed
	keys      *jwt.Keys
	plainKeys *plainKeys
	loaded    atomic.Bool
}

func newAPIRules(deps *Deps, options *Options, activators *activate.Activators, heads *forward.Heads) *apiRules {
	guard := dialguard.Guard{AllowLoopback: options.Activate.AllowLoopback}
	keys := jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now})
	a := &apiRules{
		watch: deps.Exposures, keys: keys, plainKeys: &plainKeys{log: deps.Log},
		exposed: expose.New(expose.Deps{
			Activate: func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration) {
				activators.Serve(w, r, function, activate.Call{Wait: wait, Stay: true})
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
		return a.watch(ctx, func(exposures []exposure.Exposure) {
			a.plainKeys.note(exposures)
			a.exposed.Set(exposures)
			a.loaded.Store(true)
		})
	})
	return group.Wait()
}

// report is what is loaded.
func (a *apiRules) report() exposure.Report {
	loaded := a.exposed.Loaded()
	report := exposure.Report{APIRules: make(map[string]exposure.Loaded, len(loaded))}
	for name, each := range loaded {
		told := exposure.Loaded{Fingerprint: each.Fingerprint}
		for _, problem := range each.Problems {
			told.Problems = append(told.Problems, exposure.LoadedProblem{
				Rule: int(problem.Closes) - 1, Attribute: problem.Attribute, Message: problem.Message,
			})
		}
		report.APIRules[name.String()] = told
	}
	return report
}
