package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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

var podLine = regexp.MustCompile(`^pod_cpu_usage_seconds_total\{namespace="([^"]+)",pod="([^"]+)"\} (\S+)`)

// processors adds up who uses how much of the nodes' processors.
type processors struct {
	cluster *framework.Cluster
	last    map[string]float64 // seconds by pod, and of all
	used    map[string]float64 // seconds by user
	began   time.Time
}

// watch begins to count. The function that it returns ends that, and says how many processors each user had.
func (p *processors) watch(ctx context.Context) (end func() (map[string]float64, error), err error) {
	p.last, p.used, p.began = nil, map[string]float64{}, time.Now()
	if err := p.sample(ctx); err != nil {
		return nil, err
	}
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
		elapsed, cores := time.Since(p.began).Seconds(), map[string]float64{}
		for user, seconds := range p.used {
			cores[user] = seconds / elapsed
			if user != "all" {
				cores["rest"] -= cores[user]
			}
		}
		cores["rest"] += cores["all"]
		return cores, nil
	}, nil
}

func (p *processors) sample(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := p.cluster.List(ctx, nodes); err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	now := map[string]float64{}
	for i := range nodes.Items {
		text, err := p.cluster.Kube.CoreV1().RESTClient().Get().Resource("nodes").Name(nodes.Items[i].Name).
			SubResource("proxy").Suffix("metrics/resource").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("ask the kubelet of %s: %w", nodes.Items[i].Name, err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if match := podLine.FindStringSubmatch(lines.Text()); match != nil {
				now[match[1]+"/"+match[2]], _ = strconv.ParseFloat(match[3], 64)
			} else if fields := strings.Fields(lines.Text()); fields[0] == "node_cpu_usage_seconds_total" {
				seconds, _ := strconv.ParseFloat(fields[1], 64)
				now["all"] += seconds
			}
		}
	}
	for pod, seconds := range now {
		before, known := p.last[pod]
		if p.last != nil && (known || pod != "all") {
			p.used[userOf(pod)] += max(0, seconds-before)
		}
	}
	p.last = now
	return nil
}

// userOf is whose pod that is, by its namespace/name.
func userOf(pod string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	switch {
	case namespace == framework.System:
		component, _, _ := strings.Cut(strings.TrimPrefix(name, "rouse-"), "-")
		return component
	case strings.HasPrefix(namespace, "hostile"), strings.HasPrefix(namespace, "busy"):
		return "hostile"
	case strings.HasPrefix(namespace, "quiet"):
		return "quiet"
	case namespace == "keda", namespace == "all":
		return namespace
	default:
		return "rest"
	}
}
