package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// observer collects what the cluster says of the chain: the logs of the bridges, the scalers and the handlers, and
// the watches of Deployments and pods. All clocks are the one of this machine when the cluster is local.
type observer struct {
	mu       sync.Mutex
	hops     map[string]*hop   // by Function
	event    map[string]string // id suffix of the event that wakes a Function -> Function
	replicas map[string]*framework.Replicas
	started  time.Time
}

// eventOf names, per Function of samples/orders, the ending of the id of the event that wakes it.
var eventOf = map[string]string{"pricing": ".received", "invoicing": ".priced", "recorder": ".invoiced"}

func observe(ctx context.Context, cluster *framework.Cluster, chain framework.Chain) (*observer, error) {
	o := &observer{event: map[string]string{}, replicas: map[string]*framework.Replicas{}}
	for _, function := range chain.Functions {
		o.event[eventOf[function]] = function
		record, err := cluster.RecordReplicas(ctx, chain.Namespace, function)
		if err != nil {
			return nil, err
		}
		o.replicas[function] = record
	}
	o.begin()
	for component, line := range map[string]func(record){"eventbridge": o.bridgeLine, "scaler": o.scalerLine} {
		labels := client.MatchingLabels{"app.kubernetes.io/component": component}
		if err := cluster.FollowLogs(ctx, framework.System, labels, o.decoded(line)); err != nil {
			return nil, err
		}
	}
	pods := client.MatchingLabels{"serverless.kyma-project.io/managed-by": "function-controller"}
	if err := cluster.FollowLogs(ctx, chain.Namespace, pods, o.decoded(o.handlerLine)); err != nil {
		return nil, err
	}
	err := cluster.RecordAddresses(ctx, chain.Namespace, pods, func(pod *corev1.Pod, at time.Time) {
		o.note(pod.Labels[framework.FunctionLabel], at, func(h *hop) *time.Time { return &h.addressed })
	})
	return o, err
}

// begin forgets the last order.
func (o *observer) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started, o.hops = time.Now(), map[string]*hop{}
	for _, function := range o.event {
		o.hops[function] = &hop{function: function}
	}
}

// hop has the times of a Function's hop that are known so far.
func (o *observer) hop(function string) hop {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := *o.hops[function]
	for _, move := range o.replicas[function].Moves() {
		switch {
		case move.At.Before(o.started):
		case move.Replicas > 0 && h.scaled.IsZero():
			h.scaled = move.At
		case move.Replicas == 0:
			h.asleep = move.At
		}
	}
	return h
}

// record is a line of any of the logs.
type record struct {
	Time     time.Time `json:"time"`
	At       time.Time `json:"at"`
	Msg      string    `json:"msg"`
	ID       string    `json:"id"`
	Event    string    `json:"event"`
	Outcome  string    `json:"outcome"`
	Function string    `json:"function"`
}

func (o *observer) decoded(line func(record)) func(pod, text string) {
	return func(_, text string) {
		var r record
		if json.Unmarshal([]byte(text), &r) == nil {
			line(r)
		}
	}
}

func (o *observer) bridgeLine(r record) {
	function := o.event[r.ID[max(0, strings.LastIndexByte(r.ID, '.')):]]
	switch {
	case r.Msg == "event stored":
		o.note(function, r.Time, func(h *hop) *time.Time { return &h.published })
	case r.Msg == "delivery settled" && strings.EqualFold(r.Outcome, "ack"):
		o.note(function, r.Time, func(h *hop) *time.Time { return &h.acked })
	}
}

func (o *observer) scalerLine(r record) {
	if r.Msg == "activation sent" {
		o.note(r.Function, r.At, func(h *hop) *time.Time { return &h.pushed })
	}
}

func (o *observer) handlerLine(r record) {
	if _, ending, ok := strings.Cut(r.Event, "order"); ok {
		o.note(o.event[ending], r.At, func(h *hop) *time.Time { return &h.firstByte })
	}
}

// note keeps the first time since begin.
func (o *observer) note(function string, at time.Time, field func(*hop) *time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h, ok := o.hops[function]
	if !ok || at.Before(o.started.Add(-time.Second)) {
		return
	}
	if t := field(h); t.IsZero() {
		*t = at
	}
}
