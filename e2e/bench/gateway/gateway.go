// Package gateway measures what goes through the gateway to a Function that is awake, beside a real Envoy with the same
// routes and beside net/http's own reverse proxy, over loopback and in one run. Each is a process, as are the Function and
// the clients. Envoy is the one of the gateway's differential test.
package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// What requests go through.
const (
	ours    = "gateway"
	envoy   = "envoy"
	caching = "envoy, caching tokens" // which Envoy does only when it is configured to
	plain   = "reverse proxy"
)

// kinds of requests, and what each goes through.
var kinds = []struct {
	name, about string
	through     []string
}{
	{get, "GET", []string{ours, envoy, plain}},
	{post, "POST of 1 KiB", []string{ours, envoy, plain}},
	{known, "GET, a token for each client", []string{ours, caching, envoy}},
	{fresh, "GET, a token never seen", []string{ours, envoy}},
}

const warmUp = 500 * time.Millisecond

// Run is the benchmark.
func Run(ctx context.Context, args []string) error {
	return rig.Run(ctx, "gateway", args, func(ctx context.Context, r *rig.Rig) error {
		f, err := Measure(ctx, r)
		if err == nil {
			fmt.Printf("gateway %s reverseproxy_ratio=%.2f\n", f.Envoy(), f.ReverseProxy())
		}
		return err
	}, Roles())
}

// Roles are the processes of Measure.
func Roles() map[string]rig.Role {
	return map[string]rig.Role{"function": functionRole, "proxy": proxyRole, "gateway": gatewayRole, "load": loadRole}
}

// Figures are the medians of the rounds.
type Figures struct {
	perSecond, cpu map[string]map[string][]float64
}

// Envoy is how many requests go through the gateway for each that goes through Envoy, as the last line of a benchmark has it.
// An Envoy that remembers tokens stands beside the gateway, which does, too.
func (f *Figures) Envoy() string {
	return fmt.Sprintf("envoy_ratio=%.2f envoy_post_ratio=%.2f envoy_jwt_ratio=%.2f envoy_new_token_ratio=%.2f",
		f.ratio(get, envoy), f.ratio(post, envoy), f.ratio(known, caching), f.ratio(fresh, envoy))
}

// ReverseProxy is how many requests go through the gateway for each that goes through net/http's reverse proxy.
func (f *Figures) ReverseProxy() float64 { return f.ratio(get, plain) }

func (f *Figures) ratio(kind, beside string) float64 {
	return rig.Median(f.perSecond[kind][ours]) / rig.Median(f.perSecond[kind][beside])
}

// Measure measures each kind of request through each of them, in ROUNDS rounds of ROUND_SECONDS for each.
func Measure(ctx context.Context, r *rig.Rig) (*Figures, error) {
	rounds, seconds := rig.Setting("ROUNDS", 5), rig.Setting("ROUND_SECONDS", 3)
	b, err := newBench(ctx, r)
	if err != nil {
		return nil, err
	}
	f := &Figures{map[string]map[string][]float64{}, map[string]map[string][]float64{}}
	fmt.Printf("%d connections, %d s each, %d rounds\n", connections, seconds, rounds)
	fmt.Printf("%-5s  %-28s %-21s %10s %8s %8s %8s\n", "round", "request", "through", "requests/s", "CPU us", "p50 ms", "p99 ms")
	for round := range rounds {
		for _, kind := range kinds {
			if f.perSecond[kind.name] == nil {
				f.perSecond[kind.name], f.cpu[kind.name] = map[string][]float64{}, map[string][]float64{}
			}
			for i := range kind.through {
				who := kind.through[(i+round)%len(kind.through)] // who comes later finds a warmer machine
				took, cpu, err := b.measure(ctx, who, kind.name, time.Duration(seconds)*time.Second)
				if err != nil {
					return nil, fmt.Errorf("%s through the %s: %w", kind.about, who, err)
				}
				f.perSecond[kind.name][who] = append(f.perSecond[kind.name][who], took.PerSecond)
				f.cpu[kind.name][who] = append(f.cpu[kind.name][who], cpu)
				fmt.Printf("%-5d  %-28s %-21s %10.0f %8.1f %8.2f %8.2f\n", round+1, kind.about, who, took.PerSecond, cpu, took.P50, took.P99)
			}
		}
	}
	f.print()
	return f, b.gateway.Stop() // rather than kill it: it may have a profile to write
}

func (f *Figures) print() {
	for _, kind := range kinds {
		for _, who := range kind.through {
			fmt.Printf("median %-28s %-21s %10.0f requests/s %6.1f us of CPU each\n",
				kind.about, who, rig.Median(f.perSecond[kind.name][who]), rig.Median(f.cpu[kind.name][who]))
		}
	}
}

// bench is what is measured, and the clients.
type bench struct {
	load      string
	gateway   *rig.Process
	addresses map[string]string
	processes map[string]*rig.Process
	tokens    string // the file with them
}

func newBench(ctx context.Context, r *rig.Rig) (*bench, error) {
	issuer, err := newIssuer(r.Dir())
	if err != nil {
		return nil, err
	}
	function, err := r.Start("function", issuer.keys)
	if err != nil {
		return nil, err
	}
	load, err := r.Start("load")
	if err != nil {
		return nil, err
	}
	b := &bench{load: load.Where, addresses: map[string]string{}, processes: map[string]*rig.Process{}, tokens: issuer.tokens}
	for who, role := range map[string]string{ours: "gateway", plain: "proxy"} {
		process, err := r.Start(role, function.Where)
		if err != nil {
			return nil, err
		}
		b.addresses[who], b.processes[who] = process.Where, process
	}
	b.gateway = b.processes[ours]
	for _, who := range []string{envoy, caching} {
		address, process, err := startEnvoy(ctx, r, function.Where, issuer, who == caching)
		if err != nil {
			return nil, err
		}
		b.addresses[who], b.processes[who] = address, process
	}
	return b, nil
}

// measure returns what the clients have seen, and the microseconds of CPU that a request took of what it went through.
func (b *bench) measure(ctx context.Context, who, kind string, duration time.Duration) (result, float64, error) {
	o := order{Target: b.addresses[who], Kind: kind, Tokens: b.tokens, Duration: warmUp}
	if _, err := o.run(ctx, b.load); err != nil {
		return result{}, 0, err
	}
	before, err := b.processes[who].CPU()
	if err != nil {
		return result{}, 0, err
	}
	o.Duration = duration
	took, err := o.run(ctx, b.load)
	if err != nil {
		return result{}, 0, err
	}
	after, err := b.processes[who].CPU()
	return took, float64((after - before).Microseconds()) / float64(took.Answered), err
}
