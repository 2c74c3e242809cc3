package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/e2e/framework"
)

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
