// Command cluster runs one of the benchmarks that need Kubernetes, or measure a process that has its client, which its first argument names, and prints a line of figures last.
package main

import (
	"github.com/rouse-run/rouse/e2e/bench/controller"
	"github.com/rouse-run/rouse/e2e/bench/dashboard"
	"github.com/rouse-run/rouse/e2e/bench/scaling"
	"github.com/rouse-run/rouse/e2e/bench/tenants"
	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rig.Commands("cluster", []rig.Command{
		{Name: "build", About: "a Function from its apply until it is Running", Run: benchBuild},
		{Name: "burst", About: "100 Functions that wake at the same moment, next to as many bare scale-ups", Run: benchBurst},
		{Name: "controller", About: "the controller with 10,000 Functions and Subscriptions in a kube-apiserver without nodes", Run: controller.Run},
		{Name: "dashboard", About: "the dashboard with 2,000 Functions and 500 events/s, in a browser", Run: dashboard.Run},
		{Name: "dev", About: "from a saved file to the answer of its Function, by rouse sync, and a deploy of 20 files", Run: benchDev},
		{Name: "http", About: "wakes by a request, a warm Function, and the gateway", Run: benchHTTP},
		{Name: "profiles", About: "a Function at the resources of each profile, next to the least server of its language", Run: benchProfiles},
		{Name: "scaler", About: "the scaler with 10,000 ScaledObjects and 1,000 wakes in a second, next to a server of constants", Run: scaling.Run},
		{Name: "tenants", About: "a quiet tenant next to a hostile one", Run: tenants.Run},
		{Name: "wake", About: "wakes by an event, next to bare scale-ups", Run: benchWake},
	})
}
