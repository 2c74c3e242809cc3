package main

import "github.com/rouse-run/rouse/e2e/framework"

const runtime = "nodejs22"

// The chains of events; each is a Function and its Subscription.
const (
	relay   = "relay"   // always awake, emits an event for each that it gets
	worker  = "worker"  // gets those, and is awake as long as they come
	napper  = "napper"  // sleeps between events that come seldom
	flaky   = "flaky"   // fails at some, which are tried again
	refuser = "refuser" // refuses all, which become dead letters
	held    = "held"    // asleep and paused: its events wait
	dormant = "dormant" // gets none, and sleeps
)

// The Functions that answer over HTTP.
const (
	asked   = "asked"   // may sleep, and is asked all the time
	visited = "visited" // is asked seldom, so that requests wake it
	exposed = "exposed" // is asked all the time through the gateways, by its APIRule
)

const echo = `module.exports.main = event => event.data`

func functions() []framework.Function {
	reporting := framework.ReportingHandler("")
	return []framework.Function{
		{Name: relay, Source: `module.exports.main = async event => event['ce-type'] &&
  event.emitCloudEvent('` + kind(worker) + `', '` + framework.Source + `', { key: event.data.key })`},
		{Name: worker, Source: reporting, Asleep: true, Max: 2},
		{Name: napper, Source: reporting, Asleep: true},
		{Name: flaky, Source: framework.ReportingHandler("if (Math.random() < 0.3) throw new Error('not yet')")},
		{Name: refuser, Source: `module.exports.main = event => { event.extensions.response.status(422); return 'never' }`},
		{Name: held, Source: reporting, Asleep: true},
		{Name: dormant, Source: reporting, Asleep: true},
		{Name: asked, Source: echo, Asleep: true},
		{Name: exposed, Source: echo, Asleep: true},
		{Name: visited, Source: echo, Asleep: true},
	}
}

func chains() []string { return []string{relay, worker, napper, flaky, refuser, held, dormant} }

// kind is the type of the events that a chain begins with.
func kind(chain string) string { return "upgrade." + chain + ".v1" }
