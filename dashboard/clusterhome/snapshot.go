package clusterhome

import (
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/admin"
)

// answers are what the API server and a bridge have answered.
type answers struct {
	functions     []target.Function
	subscriptions []target.Subscription
	exposed       map[types.NamespacedName][]string
	known         bridgeState
	streams       []dashboard.Stream
	problem       error // of the bridge
}

// snapshot returns what the pages show of the answers.
func (a *answers) snapshot() dashboard.Snapshot {
	found := dashboard.Snapshot{
		Functions: make([]dashboard.Function, 0, len(a.functions)), Subscriptions: make([]dashboard.Subscription, 0, len(a.subscriptions)),
		Exposures: []dashboard.Exposure{}, Schedules: make([]admin.Schedule, 0, len(a.known.schedules)), Streams: a.streams,
		Problems: []dashboard.Problem{},
	}
	at := make(map[types.NamespacedName]int, len(a.functions))
	for i := range a.functions {
		at[nameOf(&a.functions[i])] = i
		found.Functions = append(found.Functions, a.function(&a.functions[i]))
	}
	for i := range a.subscriptions {
		sub := &a.subscriptions[i]
		shown := a.subscription(sub)
		if i, leads := at[sub.Function()]; leads {
			shown.Sink, shown.Function = sub.Function().String(), true
			a.addBacklog(&found.Functions[i], sub)
		}
		found.Subscriptions = append(found.Subscriptions, shown)
	}
	for _, each := range a.known.schedules {
		found.Schedules = append(found.Schedules, admin.Schedule(each))
	}
	if a.problem != nil {
		found.Problems = append(found.Problems, dashboard.Problem{
			Object: "Admin API", Message: a.problem.Error(), Remedy: "without it there are no backlogs, events and dead letters", Warning: true,
		})
	}
	return found
}

func nameOf(fn *target.Function) types.NamespacedName {
	return types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
}

func (a *answers) function(fn *target.Function) dashboard.Function {
	return dashboard.Function{
		Namespace: fn.Namespace, Name: fn.Name, Runtime: fn.Runtime, Phase: fn.Phase, Problem: fn.LastError, Older: fn.Older,
		Desired: fn.Desired, Ready: fn.Ready, Min: fn.Min, Max: fn.Max, URL: fn.URL, Exposed: a.exposed[nameOf(fn)],
		LastWake: a.known.wakes[nameOf(fn)],
	}
}

func (a *answers) workOf(sub *target.Subscription) (work target.Work, known bool) {
	work, known = a.known.work[types.NamespacedName{Namespace: sub.Namespace, Name: sub.Name}]
	return work, known
}

func (a *answers) subscription(sub *target.Subscription) dashboard.Subscription {
	work, _ := a.workOf(sub)
	return dashboard.Subscription{
		Namespace: sub.Namespace, Name: sub.Name, Source: sub.Source, Types: sub.Types, TypeMatching: eventingv1alpha2.TypeMatching(sub.TypeMatching),
		Sink: sub.Sink, State: sub.State, Message: sub.Message,
		Backlog: work.Backlog, InFlight: work.AckPending, Retries: work.WaitingRetries, DeadLetters: work.DeadLetters,
	}
}

// addBacklog adds what waits at a Subscription to the backlog of its Function, which is nil where none is known.
func (a *answers) addBacklog(fn *dashboard.Function, sub *target.Subscription) {
	work, known := a.workOf(sub)
	if !known {
		return
	}
	backlog := int(work.Backlog + work.AckPending + work.WaitingRetries)
	if fn.Backlog != nil {
		backlog += *fn.Backlog
	}
	fn.Backlog = &backlog
}
