// Command durable runs the sample of a workflow with Restate's own server: the Function sleeps while the workflow waits, wakes when it is
// due, and a pod that is killed in the middle of a step costs nothing.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	serverPackage = "@restatedev/restate-server@1.7.12"
	name          = "orders"
	asleep        = 2 * time.Minute
)

func main() { framework.Main("durable", run) }

func run(ctx context.Context) (err error) {
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "durable")
	if err != nil {
		return err
	}
	defer end()
	defer func() {
		if err != nil {
			cluster.Dump(context.WithoutCancel(ctx), os.Stderr, namespace)
		}
	}()
	fmt.Println("building the Function with Restate's SDK ...")
	address, err := apply(ctx, cluster, namespace)
	if err != nil {
		return err
	}
	fmt.Println("starting Restate's server ...")
	server, err := startRestate(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := server.register(ctx, address); err != nil {
		return err
	}
	if err := waits(ctx, cluster, namespace, server); err != nil {
		return err
	}
	return isKilled(ctx, cluster, namespace, server)
}

// apply applies the sample with short pauses, and returns the address of its Service once it has a version that runs.
func apply(ctx context.Context, cluster *framework.Cluster, namespace string) (string, error) {
	manifest, err := os.ReadFile(filepath.Join("samples", "durable", "orders.yaml"))
	if err != nil {
		return "", fmt.Errorf("read the sample: %w", err)
	}
	here := strings.Replace(string(manifest), "namespace: durable",
		"namespace: "+namespace+"\n  annotations: {rouse.run/cooldown-period: \"5\", rouse.run/polling-interval: \"1\"}", 1)
	if err := cluster.ApplyYAML(ctx, namespace, here); err != nil {
		return "", err
	}
	if err := cluster.AwaitCondition(ctx, namespace, framework.FunctionGVK, name, "Running", "True", 5*time.Minute); err != nil {
		return "", err
	}
	service := &corev1.Service{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service); err != nil {
		return "", fmt.Errorf("get the Service: %w", err)
	}
	return "http://" + service.Spec.ClusterIP, nil
}

// waits begins a workflow whose wait is longer than the Function stays awake.
func waits(ctx context.Context, cluster *framework.Cluster, namespace string, server *restate) error {
	began := time.Now()
	if err := server.begin(ctx, "waiting", 90); err != nil {
		return err
	}
	if err := cluster.AwaitReplicas(ctx, namespace, name, 0, asleep); err != nil {
		return err
	}
	slept := time.Since(began)
	parcel, err := server.attach(ctx, "waiting")
	if err != nil {
		return err
	}
	fmt.Printf("the Function slept after %.0f s, and the workflow ended after %.1f s of 90: %s\n", slept.Seconds(), time.Since(began).Seconds(), parcel)
	return cluster.AwaitReplicas(ctx, namespace, name, 0, asleep)
}

// isKilled kills the pod that has just begun the last step of each of some workflows.
func isKilled(ctx context.Context, cluster *framework.Cluster, namespace string, server *restate) error {
	const workflows = 20
	for i := range workflows {
		if err := server.begin(ctx, fmt.Sprint("killed-", i), 0); err != nil {
			return err
		}
	}
	killed := false
	err := framework.Await(ctx, time.Minute, "a pod to kill", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := cluster.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{framework.FunctionLabel: name})
		for i := range pods.Items {
			if pods.Items[i].Status.PodIP != "" {
				killed = cluster.KillPod(ctx, &pods.Items[i]) == nil || killed
			}
		}
		return killed, err
	})
	if err != nil {
		return err
	}
	for i := range workflows {
		parcel, err := server.attach(ctx, fmt.Sprint("killed-", i))
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("parcel for the reservation of killed-%d", i); !strings.Contains(parcel, want) {
			return fmt.Errorf("workflow %d has %s in place of %q", i, parcel, want)
		}
	}
	fmt.Printf("durable workflows=%d lost=0\n", workflows+1)
	return nil
}

// restate is a server of Restate's on loopback.
type restate struct {
	ingress, admin string
	stop           func()
}

// startRestate installs the server with npm and starts it. Its state goes with it.
func startRestate(ctx context.Context) (*restate, error) {
	folder, err := filepath.Abs(filepath.Join("bin", "restate"))
	if err != nil {
		return nil, fmt.Errorf("find bin: %w", err)
	}
	install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, serverPackage)
	if output, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install Restate's server: %w: %s", err, output)
	}
	programs, err := filepath.Glob(filepath.Join(folder, "node_modules", "@restatedev", "restate-server-*", "bin", "restate-server"))
	if err != nil || len(programs) != 1 {
		return nil, fmt.Errorf("find Restate's server below %s: %v %w", folder, programs, err)
	}
	state, err := os.MkdirTemp("", "restate-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Restate's state: %w", err)
	}
	var ports [3]string
	for i := range ports {
		if ports[i], err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, programs[0], "--base-dir", state, "--no-logo", "--listen-mode", "tcp")
	server.Env = append(os.Environ(), "RESTATE_DISABLE_TELEMETRY=true", "RUST_LOG=warn,octocrab=off",
		"RESTATE_INGRESS__BIND_ADDRESS="+ports[0], "RESTATE_ADMIN__BIND_ADDRESS="+ports[1],
		"RESTATE_BIND_ADDRESS="+ports[2], "RESTATE_ADVERTISED_ADDRESS=http://"+ports[2])
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start Restate's server: %w", err)
	}
	return &restate{ingress: "http://" + ports[0], admin: "http://" + ports[1], stop: func() {
		cancel()
		_ = server.Wait() // it was killed
		_ = os.RemoveAll(state)
	}}, nil
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// register tells the server where the workflow's steps are, which wakes the Function.
func (r *restate) register(ctx context.Context, address string) error {
	return framework.Await(ctx, 2*time.Minute, "Restate's server to know the Function", func(ctx context.Context) (bool, error) {
		_, err := ask(ctx, http.MethodPost, r.admin+"/deployments", map[string]any{"uri": address, "use_http_11": true})
		return err == nil, err
	})
}

// begin begins a workflow.
func (r *restate) begin(ctx context.Context, key string, seconds int) error {
	return framework.Await(ctx, time.Minute, "the workflow to begin", func(ctx context.Context) (bool, error) { // a registration takes a moment
		_, err := ask(ctx, http.MethodPost, r.ingress+"/order/"+key+"/run/send", map[string]any{"seconds": seconds})
		return err == nil, err
	})
}

// attach waits for the result of a workflow.
func (r *restate) attach(ctx context.Context, key string) (string, error) {
	return ask(ctx, http.MethodGet, r.ingress+"/restate/workflow/order/"+key+"/attach", nil)
}

func ask(ctx context.Context, method, url string, body any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return "", fmt.Errorf("encode a request to Restate: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, url, &content)
	if err != nil {
		return "", fmt.Errorf("make a request to Restate: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := (&http.Client{Transport: &http.Transport{Proxy: nil}}).Do(request)
	if err != nil {
		return "", fmt.Errorf("ask Restate: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read the answer of Restate: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return "", fmt.Errorf("Restate answered %d: %s", response.StatusCode, text) //nolint:staticcheck // a name
	}
	return strings.TrimSpace(string(text)), nil
}
