// Command bench runs one of the project's benchmarks, which its first argument names, and prints a line of figures last.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rouse-run/rouse/e2e/bench/controller"
	"github.com/rouse-run/rouse/e2e/bench/memory"
	"github.com/rouse-run/rouse/e2e/bench/runtime"
	"github.com/rouse-run/rouse/e2e/bench/tenants"
)

var benchmarks = []struct {
	name, measures string
	run            func(ctx context.Context, args []string) error
}{
	{"build", "a Function from its apply until it is Running, on the cluster", benchBuild},
	{"controller", "the controller with 10,000 Functions and Subscriptions in a real kube-apiserver", controller.Run},
	{"dispatch", "delivery of stored events, next to a bare loop", benchDispatch},
	{"http", "wakes by a request, a warm Function and the gateway, on the cluster", benchHTTP},
	{"ingress", "publishing, next to a bare handler", benchIngress},
	{"latency", "events from publisher to sink, next to the bare pair", benchLatency},
	{"local", "wakes in local mode, next to bare servers", benchLocal},
	{"memory", "a bridge's peak memory under hostile loads", memory.Run},
	{"retries", "retries of one Subscription while those of others wait", benchRetries},
	{"runtime", "the servers of Functions, next to bare HTTP servers", runtime.Run},
	{"subscriptions", "a bridge with 10,000 Subscriptions", benchSubscriptions},
	{"tenants", "a quiet tenant next to a hostile one, on the cluster", tenants.Run},
	{"wake", "wakes by an event, next to bare scale-ups, on the cluster", benchWake},
}

func main() {
	if len(os.Args) > 1 {
		for _, b := range benchmarks {
			if b.name == os.Args[1] {
				run(b.name, b.run)
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, "usage: bench BENCHMARK [flags]")
	for _, b := range benchmarks {
		fmt.Fprintf(os.Stderr, "  %-14s %s\n", b.name, b.measures)
	}
	os.Exit(2)
}

func run(name string, benchmark func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := benchmark(ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench-%s: %v\n", name, err)
		os.Exit(1)
	}
}
