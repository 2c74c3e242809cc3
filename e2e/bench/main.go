// Command bench runs one of the benchmarks of Rouse's processes, which its first argument names, and prints a line of figures last.
// Those that need Kubernetes are in e2e/bench/cluster: its client would be most of the memory of each bridge that is measured here.
package main

import (
	"github.com/rouse-run/rouse/e2e/bench/gateway"
	"github.com/rouse-run/rouse/e2e/bench/memory"
	"github.com/rouse-run/rouse/e2e/bench/runtime"
	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	natsName  = "nats"  // of the server of each benchmark
	benchName = "bench" // of what else needs one
)

func main() {
	rig.Commands("bench", []rig.Command{
		{Name: "dev", About: "from a saved file to the answer of its Function", Run: benchDev},
		{Name: "dispatch", About: "delivery of stored events, next to a bare loop", Run: benchDispatch},
		{Name: "doors", About: "publishing through Doors, next to the ingress behind them", Run: benchDoors},
		{Name: "gateway", About: "requests through the gateway, next to Envoy and net/http's reverse proxy", Run: gateway.Run},
		{Name: "ingress", About: "publishing, next to a bare handler", Run: benchIngress},
		{Name: "latency", About: "events from publisher to sink, next to the bare pair", Run: benchLatency},
		{Name: "local", About: "wakes in local mode, next to bare servers", Run: benchLocal},
		{Name: "memory", About: "a bridge's peak memory under hostile loads", Run: memory.Run},
		{Name: "retries", About: "retries of one Subscription while those of others wait", Run: benchRetries},
		{Name: "runtime", About: "the servers of Functions, next to bare HTTP servers", Run: runtime.Run},
		{Name: "schedules", About: "1,000 Schedules of a second while servers and bridges die, and 100,000 delayed events", Run: benchSchedules},
		{Name: "subscriptions", About: "a bridge with 10,000 Subscriptions", Run: benchSubscriptions},
	})
}
