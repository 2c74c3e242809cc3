package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/entrance"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
)

// WatchExposures calls apply with the exposures of all APIRules, at once and after each change, one call at a time,
// until ctx ends.
type WatchExposures func(ctx context.Context, apply func([]apirule.Exposure)) error

// apiRules serves the hosts of APIRules.
type apiRules struct {
	watch     WatchExposures
	entrance  *entrance.Entrance
	server    *apirules.Server
	keys      *jwt.Keys
	plainKeys *plainKeys
	loaded    atomic.Bool
}

func newAPIRules(deps *Deps, options *Options, activators *activator.Activator, heads *forward.Heads) *apiRules {
	guard := dialguard.Guard{AllowLoopback: options.Activator.AllowLoopback}
	keys := jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now})
	a := &apiRules{
		watch: deps.Exposures, keys: keys, plainKeys: &plainKeys{log: deps.Log},
		server: apirules.New(apirules.Deps{
			Activate: func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration) {
				activators.Serve(w, r, function, activator.Call{Wait: wait, Stay: true})
			},
			Keys: keys, Endpoints: deps.Endpoints, Heads: heads, Guard: guard, DoorToken: deps.DoorToken, Now: time.Now, Registry: deps.Registry, Log: deps.Log,
		}, options.APIRules),
	}
	a.entrance = entrance.New(entrance.Deps{AsksCertificate: a.server.AsksCertificate, Registry: deps.Registry, Log: deps.Log}, options.Entrance)
	deps.Registry.MustRegister(keysCollector{keys, a.plainKeys})
	return a
}

// ready returns why hosts are not served, or nil.
func (a *apiRules) ready() error {
	if !a.loaded.Load() {
		return errors.New("the APIRules are not loaded yet")
	}
	return a.entrance.Ready()
}

// follow updates hosts and keys with the cluster. It outlives the last request.
func (a *apiRules) follow(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		a.keys.Run(ctx)
		return nil
	})
	group.Go(func() error {
		return a.watch(ctx, func(exposures []apirule.Exposure) {
			a.plainKeys.note(exposures)
			a.server.Set(exposures)
			a.loaded.Store(true)
		})
	})
	return group.Wait()
}

// report returns what is loaded.
func (a *apiRules) report() apirule.Report {
	loaded := a.server.Loaded()
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

// plainKeys tracks which issuers' keys are fetched without TLS: whoever can change network traffic can sign tokens with
// them.
type plainKeys struct {
	log logr.Logger

	mu    sync.Mutex
	known map[string]struct{}
}

// note logs each URI once while a rule refers to it.
func (p *plainKeys) note(exposures []apirule.Exposure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.known
	p.known = map[string]struct{}{}
	for i := range exposures {
		for _, rule := range exposures[i].Rules {
			for _, uri := range plainURIs(rule.Spec) {
				_, again := before[uri]
				if _, seen := p.known[uri]; !seen && !again {
					p.log.Info("an issuer's keys are fetched without TLS", "namespace", exposures[i].APIRule.Namespace,
						"apirule", exposures[i].APIRule.Name, "host", hostOf(uri))
				}
				p.known[uri] = struct{}{}
			}
		}
	}
}

func (p *plainKeys) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.known)
}

func plainURIs(rule *v2.Rule) []string {
	var tokens []*v2.JWT
	if rule.JWT != nil {
		tokens = append(tokens, rule.JWT)
	}
	if rule.ExtAuth != nil && rule.ExtAuth.Restrictions != nil {
		tokens = append(tokens, rule.ExtAuth.Restrictions)
	}
	var uris []string
	for _, token := range tokens {
		for _, issuer := range token.Authentications {
			if issuer != nil && len(issuer.JWKSURI) > len("http:") && strings.EqualFold(issuer.JWKSURI[:len("http:")], "http:") {
				uris = append(uris, issuer.JWKSURI)
			}
		}
	}
	return uris
}

// hostOf returns the host of a URI without parts that may be secret.
func hostOf(uri string) string {
	parsed, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// keysCollector counts the URIs of issuers' keys by state.
type keysCollector struct {
	keys  *jwt.Keys
	plain *plainKeys
}

var (
	keyURIs = prometheus.NewDesc("rouse_gateway_jwks_uris",
		"URIs of issuers' keys: fresh, stale when the last answer was no key set, or missing while there never was one.", []string{"state"}, nil)
	plainKeyURIs = prometheus.NewDesc("rouse_gateway_jwks_plain_uris", "URIs of issuers' keys without TLS that rules name.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c keysCollector) Describe(to chan<- *prometheus.Desc) {
	to <- keyURIs
	to <- plainKeyURIs
}

// Collect implements prometheus.Collector.
func (c keysCollector) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{"fresh": 0, "stale": 0, "missing": 0}
	for _, state := range c.keys.States() {
		switch {
		case state.Keys == 0:
			counts["missing"]++
		case state.Err != nil:
			counts["stale"]++
		default:
			counts["fresh"]++
		}
	}
	for state, count := range counts {
		to <- prometheus.MustNewConstMetric(keyURIs, prometheus.GaugeValue, float64(count), state)
	}
	to <- prometheus.MustNewConstMetric(plainKeyURIs, prometheus.GaugeValue, float64(c.plain.count()))
}
