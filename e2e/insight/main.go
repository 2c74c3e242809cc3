// Command insight scrapes the metrics of all processes of Rouse on the cluster that KUBECONFIG names while events and
// requests wake a Function, fail and are repeated, and writes each scrape into a folder. The command in panels/ evaluates the
// dashboards over them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	name        = "seen" // of the Function, its Subscription and its APIRule
	eventType   = "insight.seen.v1"
	scrapeEvery = 5 * time.Second
	lasts       = 90 * time.Second
	loadEvery   = 500 * time.Millisecond
)

// handler answers an event by another, refuses some for good, and fails with others for once.
const handler = `
const seen = new Set()
module.exports.main = async (event, context) => {
  if (!event['ce-type']) return 'ok'
  const { n } = event.data
  if (n % 10 === 3) return event.extensions.response.status(422).send('refused')
  if (n % 10 === 5 && !seen.has(n)) { seen.add(n); throw new Error('once') }
  return event.extensions.response.set({ 'ce-specversion': '1.0', 'ce-id': 'reply-' + event['ce-id'], 'ce-source': 'insight', 'ce-type': 'insight.replied.v1' }).json({})
}`

func main() { framework.Main("insight", run) }

func run(ctx context.Context) error {
	out := flag.String("out", "", "folder for the scrapes, which is emptied")
	flag.Parse()
	if *out == "" {
		return errors.New("-out is empty: name the folder for the scrapes")
	}
	if err := errors.Join(os.RemoveAll(*out), os.MkdirAll(*out, 0o755)); err != nil {
		return err
	}
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "insight")
	if err != nil {
		return err
	}
	defer end()
	fmt.Println("preparing a Function with a Subscription, an APIRule and a stand-in ...")
	caller, err := prepare(ctx, cluster, namespace)
	if err != nil {
		return err
	}
	fmt.Printf("scraping for %s ...\n", lasts)
	ended, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	group, ctx := errgroup.WithContext(ended)
	group.Go(func() error { return load(ctx, cluster, caller, namespace) })
	group.Go(func() error { return scrapeAll(ctx, cluster, *out) })
	if err := group.Wait(); ended.Err() == nil {
		return err
	}
	return nil
}

func prepare(ctx context.Context, cluster *framework.Cluster, namespace string) (*framework.Caller, error) {
	woken := framework.Function{
		Name: name, Runtime: "nodejs22", Source: handler, Asleep: true, Max: 3, Annotations: framework.Fast(), Spec: framework.WithinStandIns(),
	}
	subscription := framework.Subscription{Name: name, Namespace: namespace, Type: eventType, Sink: name}
	rule := framework.APIRule{Name: name, Host: namespace, Service: name, Gateway: framework.OwnGateway}
	if err := cluster.ApplyYAML(ctx, namespace, woken.YAML()+"---\n"+subscription.YAML()+"---\n"+rule.YAML()); err != nil {
		return nil, err
	}
	if err := cluster.AskForStandIns(ctx, namespace, "nodejs22=1"); err != nil {
		return nil, err
	}
	if err := cluster.AwaitSubscribed(ctx, namespace, name); err != nil {
		return nil, err
	}
	return cluster.StartCaller(ctx, namespace)
}

// load publishes and calls for a while and then lets the Function sleep, again and again.
func load(ctx context.Context, cluster *framework.Cluster, caller *framework.Caller, namespace string) error {
	const busy, period = 20, 60
	ticker := time.NewTicker(loadEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if n%period >= busy {
			continue
		}
		event := framework.Event{ID: fmt.Sprintf("%s-%d", namespace, n), Type: eventType, Data: map[string]int{"n": n}}
		if err := cluster.Publish(ctx, event); err != nil {
			return err
		}
		calls := []framework.Call{
			{URL: "http://" + name + "." + namespace, Method: http.MethodGet},
			{URL: framework.Entrance, Method: http.MethodGet, Headers: map[string]string{"host": namespace + "." + framework.OwnDomain}},
		}
		for _, call := range calls {
			if _, err := caller.Do(ctx, call); err != nil {
				return err
			}
		}
	}
}

// scrapeAll scrapes all pods with a port for metrics, as often as a Prometheus would.
func scrapeAll(ctx context.Context, cluster *framework.Cluster, out string) error {
	ticker := time.NewTicker(scrapeEvery)
	defer ticker.Stop()
	for {
		pods := &corev1.PodList{}
		if err := cluster.List(ctx, pods, client.InNamespace(framework.System)); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if port := metricsPort(pod); port > 0 && framework.Ready(pod) {
				if err := scrape(ctx, pod, port, out); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// metricsPort returns 0 for a pod without metrics.
func metricsPort(pod *corev1.Pod) int32 {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == "metrics" {
				return port.ContainerPort
			}
		}
	}
	return 0
}

func scrape(ctx context.Context, pod *corev1.Pod, port int32, out string) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeEvery)
	defer cancel()
	at := time.Now().UnixMilli()
	url := "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))) + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("scrape pod %s: %w", pod.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("scrape pod %s: it answered %d", pod.Name, response.StatusCode))
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("%d_%s.txt", at, pod.Name)), text, 0o600)
}
