// Package tenants measures what one tenant notices of another one that attacks all that they share: how long an apply, an event, a
// request to a Function that sleeps, a deploy from Git and a build take alone, beside a hostile tenant, and, as a control, beside one
// that only computes, as much as the hostile one and all that it sets to work, in the same run.
package tenants

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
)

type settings struct {
	rounds, events int
	kinds, hostile []string
	each           bool
}

// Run is the benchmark with its flags.
func Run(ctx context.Context, args []string) (err error) {
	var s settings
	flags := flag.NewFlagSet("tenants", flag.ExitOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "how often the quiet tenant does everything in each phase")
	flags.IntVar(&s.events, "events", 200, "how many events of a round are measured")
	does := flags.String("quiet", strings.Join(kinds, ","), "what the quiet tenant does")
	attacks := flags.String("hostile", strings.Join(parts, ","), "what the hostile tenant attacks")
	flags.BoolVar(&s.each, "each", false, "attack each of these alone before all at the same time")
	_ = flags.Parse(args)
	if s.kinds, err = choice("-quiet", *does, kinds); err != nil {
		return err
	}
	if s.hostile, err = choice("-hostile", *attacks, parts); err != nil {
		return err
	}
	return run(ctx, s)
}

// choice are those of a list that all has.
func choice(name, list string, all []string) ([]string, error) {
	chosen := strings.Split(list, ",")
	for _, one := range chosen {
		if !slices.Contains(all, one) {
			return nil, fmt.Errorf("%s: %q is not one of %s", name, one, strings.Join(all, ","))
		}
	}
	return chosen, nil
}

// neighbour is who is there beside the quiet tenant in a phase.
type neighbour interface {
	begin(ctx context.Context) error
	end(ctx context.Context) error
}

// phase is what the quiet tenant had in one company.
type phase struct {
	name  string
	took  measured
	cores map[string]float64
}

type bench struct {
	settings
	cluster *framework.Cluster
	quiet   *quiet
	phases  []phase
}

func run(ctx context.Context, s settings) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	b := &bench{settings: s, cluster: cluster, quiet: &quiet{cluster: cluster, kinds: s.kinds, events: s.events}}
	defer func() {
		ending, cancel := ending(ctx)
		defer cancel()
		if err != nil && b.quiet.namespace != "" {
			cluster.Dump(ending, os.Stderr, b.quiet.namespace)
		}
		err = errors.Join(err, b.quiet.end(ending))
	}()
	before, err := restarts(ctx, cluster)
	if err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	after, err := restarts(ctx, cluster)
	if err != nil {
		return err
	}
	b.explain()
	fmt.Println("control", b.ratios("control", "control"))
	fmt.Println("tenants", b.ratios("quiet", "hostile"), fmt.Sprintf("restarts=%d", after-before))
	return nil
}

func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
}

func (b *bench) measure(ctx context.Context) error {
	fmt.Println("setting up a quiet tenant ...")
	if err := b.quiet.prepare(ctx); err != nil {
		return err
	}
	if _, err := b.quiet.measure(ctx, "warm-up", 1); err != nil {
		return err
	}
	if err := b.phase(ctx, "alone", nil); err != nil {
		return err
	}
	if b.each {
		for _, part := range b.hostile {
			if err := b.phase(ctx, part, &hostile{cluster: b.cluster, parts: []string{part}}); err != nil {
				return err
			}
		}
	}
	if err := b.phase(ctx, "hostile", &hostile{cluster: b.cluster, parts: b.hostile}); err != nil {
		return err
	}
	return b.phase(ctx, "control", &busy{cluster: b.cluster, cores: b.named("hostile").cores["all"] - b.named("alone").cores["all"]})
}

func (b *bench) phase(ctx context.Context, name string, beside neighbour) (err error) {
	if beside != nil {
		defer func() {
			ending, cancel := ending(ctx)
			defer cancel()
			err = errors.Join(err, beside.end(ending))
		}()
		fmt.Printf("setting up its neighbour, %s ...\n", name)
		if err := beside.begin(ctx); err != nil {
			return err
		}
	}
	processors := &processors{cluster: b.cluster}
	end, err := processors.watch(ctx)
	if err != nil {
		return err
	}
	took, err := b.quiet.measure(ctx, name, b.rounds)
	if err != nil {
		return err
	}
	cores, err := end()
	if err != nil {
		return err
	}
	b.phases = append(b.phases, phase{name: name, took: took, cores: cores})
	if beside, ok := beside.(*hostile); ok {
		report, err := beside.report(ctx)
		if err != nil {
			return err
		}
		fmt.Println("meanwhile the hostile tenant had:", report)
	}
	fmt.Println("attempts to publish that were refused so far:", b.quiet.refused)
	return nil
}

func (b *bench) named(name string) phase {
	return b.phases[slices.IndexFunc(b.phases, func(p phase) bool { return p.name == name })]
}

// restarts counts those of all of Rouse's containers. A container that was out of memory has restarted.
func restarts(ctx context.Context, cluster *framework.Cluster) (count int32, err error) {
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods, client.InNamespace(framework.System)); err != nil {
		return 0, fmt.Errorf("count the restarts: %w", err)
	}
	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			count += status.RestartCount
		}
	}
	return count, nil
}

// typical is the 99th percentile of events, of which there are many, and the median of what is done once a round.
func typical(of measured, what string) float64 {
	if what == eventKind {
		return rig.Milliseconds(of[what], 99)
	}
	return rig.Milliseconds(of[what], 50)
}

// ratios are those of a phase to the quiet tenant alone.
func (b *bench) ratios(prefix, name string) string {
	var fields []string
	for _, what := range b.kinds {
		title := what
		if what == eventKind {
			title = "event_p99"
		}
		fields = append(fields, fmt.Sprintf("%s_%s_ratio=%.2f", prefix, title, typical(b.named(name).took, what)/typical(b.named("alone").took, what)))
	}
	return strings.Join(fields, " ")
}

// explain prints what took how long in each phase, and who used how many processors meanwhile.
func (b *bench) explain() {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(phase) string) {
		_, _ = fmt.Fprint(table, name, "\t")
		for _, one := range b.phases {
			_, _ = fmt.Fprint(table, cell(one), "\t")
		}
		_, _ = fmt.Fprintln(table)
	}
	row("", func(p phase) string { return p.name })
	for _, what := range b.kinds {
		row(what+" ms", func(p phase) string { return fmt.Sprintf("%.0f", typical(p.took, what)) })
		if what == eventKind {
			row("event p50 ms", func(p phase) string { return fmt.Sprintf("%.0f", rig.Milliseconds(p.took[what], 50)) })
		}
		row(what+" slowest ms", func(p phase) string { return fmt.Sprintf("%.0f", rig.Milliseconds(p.took[what], 100)) })
	}
	for _, user := range users {
		row("processors: "+user, func(p phase) string { return fmt.Sprintf("%.2f", p.cores[user]) })
	}
	_ = table.Flush()
}

// sampleEvery is how often the kubelets are asked: what a pod used after its last sample is counted with the rest.
const sampleEvery = 5 * time.Second

// users are whose use of processors is shown, in this order. The rest is Kubernetes, the tool, and pods that were too short to be seen.
var users = []string{"hostile", "quiet", "controller", "eventbridge", "gateway", "nats", "registry", "scaler", "keda", "rest", "all"}

// stale is a usage of a pod that is gone.
const stale = 30 * time.Second

var podLine = regexp.MustCompile(`^pod_cpu_usage_seconds_total\{namespace="([^"]+)",pod="([^"]+)"\} (\S+) (\d+)`)

// usage is how many seconds of a processor a pod or a node had used, and when the kubelet looked: often seconds before it is asked.
type usage struct {
	seconds float64
	at      time.Time
}

// processors finds out who uses how much of the nodes' processors.
type processors struct {
	cluster     *framework.Cluster
	began       time.Time
	first, last map[string]usage // by namespace/name of a pod, or "node/" and its name
}

// watch begins to count. The function that it returns ends that, and says how many processors each user had.
func (p *processors) watch(ctx context.Context) (end func() (map[string]float64, error), err error) {
	p.began, p.last = time.Now(), map[string]usage{}
	if err := p.sample(ctx); err != nil {
		return nil, err
	}
	p.first = maps.Clone(p.last)
	watching, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-watching.Done():
				return
			case <-time.After(sampleEvery):
				_ = p.sample(watching) // the next one has what this one misses
			}
		}
	}()
	return func() (map[string]float64, error) {
		cancel()
		<-ended
		if err := p.sample(ctx); err != nil {
			return nil, err
		}
		return p.cores(), nil
	}, nil
}

// cores are the processors of each user, as far as the kubelets have seen.
func (p *processors) cores() map[string]float64 {
	cores := map[string]float64{}
	for of, last := range p.last {
		first, whole := p.first[of]
		elapsed := time.Since(p.began)
		if whole && time.Since(last.at) < stale {
			elapsed = max(last.at.Sub(first.at), time.Millisecond)
		}
		cores[userOf(of)] += (last.seconds - first.seconds) / elapsed.Seconds()
	}
	cores["rest"] += cores["all"]
	for user, used := range cores {
		if user != "all" && user != "rest" {
			cores["rest"] -= used
		}
	}
	return cores
}

func (p *processors) sample(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := p.cluster.List(ctx, nodes); err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		text, err := p.cluster.Kube.CoreV1().RESTClient().Get().Resource("nodes").Name(name).
			SubResource("proxy").Suffix("metrics/resource").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("ask the kubelet of %s: %w", name, err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if match := podLine.FindStringSubmatch(lines.Text()); match != nil {
				p.last[match[1]+"/"+match[2]] = usageOf(match[3], match[4])
			} else if fields := strings.Fields(lines.Text()); fields[0] == "node_cpu_usage_seconds_total" {
				p.last["node/"+name] = usageOf(fields[1], fields[2])
			}
		}
	}
	return nil
}

func usageOf(seconds, at string) usage {
	used, _ := strconv.ParseFloat(seconds, 64)
	milliseconds, _ := strconv.ParseInt(at, 10, 64)
	return usage{seconds: used, at: time.UnixMilli(milliseconds)}
}

// userOf is whose pod that is; a node is of all.
func userOf(of string) string {
	namespace, name, _ := strings.Cut(of, "/")
	switch {
	case namespace == "node":
		return "all"
	case namespace == framework.System:
		component, _, _ := strings.Cut(strings.TrimPrefix(name, "rouse-"), "-")
		return component
	case strings.HasPrefix(namespace, "hostile"), strings.HasPrefix(namespace, "busy"):
		return "hostile"
	case strings.HasPrefix(namespace, "quiet"):
		return "quiet"
	case namespace == "keda":
		return namespace
	default:
		return "rest"
	}
}
