// Command demo plays samples/orders on the cluster that KUBECONFIG names: it publishes an order while all three
// Functions sleep, follows it through the chain, and prints the time of each step of each hop.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() {
	orders := flag.Int("orders", 3, "how many orders to publish, each when all Functions sleep again")
	folder := flag.String("sample", "samples/orders", "folder of the sample")
	keep := flag.Bool("keep", false, "leave the sample in the cluster")
	flag.Parse()
	framework.Main("demo", func(ctx context.Context) error { return run(ctx, *orders, *folder, *keep) })
}

func run(ctx context.Context, orders int, folder string, keep bool) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	chain := framework.Orders(folder)
	if !keep {
		defer func() { _ = cluster.DeleteNamespace(context.WithoutCancel(ctx), chain.Namespace) }()
	}
	fmt.Println("applying the order chain and waiting until its Functions sleep ...")
	if err := chain.Start(ctx, cluster); err != nil {
		return err
	}
	observer, err := observe(ctx, cluster, chain)
	if err != nil {
		return err
	}
	var wakes []time.Duration
	lost := 0
	for n := range orders {
		order := fmt.Sprintf("order-%d-%d", time.Now().Unix(), n+1)
		hops, err := play(ctx, cluster, chain, observer, order)
		if err != nil {
			return err
		}
		printTimeline(os.Stdout, order, hops)
		for _, hop := range hops {
			if hop.firstByte.IsZero() {
				lost++
				continue
			}
			wakes = append(wakes, hop.firstByte.Sub(hop.published))
		}
	}
	for _, function := range chain.Functions {
		balance, err := cluster.Balance(ctx, chain.Namespace, function)
		if err != nil {
			return err
		}
		lost += int(balance.Pending + balance.DeadLetters)
	}
	if lost > 0 {
		return fmt.Errorf("%d events did not arrive", lost)
	}
	fmt.Printf("demo ok: events=%d lost=%d wake_to_first_byte_p50_ms=%d\n",
		orders*len(chain.Functions), lost, framework.Percentile(wakes, 50).Milliseconds())
	return nil
}

// play publishes one order and returns its hops when all Functions sleep again.
func play(ctx context.Context, cluster *framework.Cluster, chain framework.Chain, o *observer, order string) ([]hop, error) {
	o.begin()
	if err := chain.PublishOrder(ctx, cluster, order); err != nil {
		return nil, err
	}
	last := chain.Functions[len(chain.Functions)-1]
	err := framework.Await(ctx, 2*time.Minute, "the order to reach "+last, func(context.Context) (bool, error) {
		return !o.hop(last).acked.IsZero(), nil
	})
	if err != nil {
		return nil, err
	}
	if err := chain.AwaitAsleep(ctx, cluster); err != nil {
		return nil, err
	}
	hops := make([]hop, 0, len(chain.Functions))
	for _, function := range chain.Functions {
		hops = append(hops, o.hop(function))
	}
	return hops, nil
}

// observer collects the events of the chain: the logs of the bridges, the scalers and the handlers, and the watches of
// Deployments and pods. With a local cluster all times are from this machine's clock.
type observer struct {
	mu       sync.Mutex
	hops     map[string]*hop   // by Function
	event    map[string]string // id suffix of the event that wakes a Function -> Function
	replicas map[string]*framework.Replicas
	started  time.Time
}

// eventOf maps each Function of samples/orders to the suffix of the id of the event that wakes it.
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

// begin discards the last order.
func (o *observer) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started, o.hops = time.Now(), map[string]*hop{}
	for _, function := range o.event {
		o.hops[function] = &hop{function: function}
	}
}

// hop returns the known times of a Function's hop.
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

// note records the first time since begin.
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

// hop contains the times of the steps of one event of the chain.
type hop struct {
	function  string
	published time.Time // stored in JetStream
	pushed    time.Time // the scaler sent true to KEDA
	scaled    time.Time // 1 desired replica of the Deployment
	addressed time.Time // the pod has an address
	firstByte time.Time // the handler runs
	acked     time.Time // the bridge has acked the event
	asleep    time.Time // 0 desired replicas again
}

// printTimeline prints a row per hop; times are relative to the hop's own publish.
func printTimeline(out io.Writer, order string, hops []hop) {
	_, _ = fmt.Fprintf(out, "\n%s\n", order)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "Function\tpublished\ttrue sent\treplicas 1\taddress\tfirst byte\tacked\tback to zero\t")
	for _, h := range hops {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", h.function, h.published.Local().Format("15:04:05.000"),
			since(h.published, h.pushed), since(h.published, h.scaled), since(h.published, h.addressed),
			since(h.published, h.firstByte), since(h.published, h.acked), since(h.published, h.asleep))
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(out)
}

func since(start, at time.Time) string {
	switch d := at.Sub(start); {
	case start.IsZero() || at.IsZero():
		return "-"
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
}
