package release

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const (
	// Name of the Helm release.
	Name = "rouse"
	// Namespace of the Helm release.
	Namespace = "rouse-system"

	installLimit = 8 * time.Minute
)

// Images are those that the chart is to run.
type Images struct {
	Rouse    image.Image
	NATS     image.Image
	Registry image.Image
	Runtimes map[string]image.Image
	// NATSURL is a NATS that the chart does not run itself; empty: it runs one.
	NATSURL string
	// StreamReplicas of the stream on that NATS.
	StreamReplicas int
	// CABundle is what builds trust, as PEM.
	CABundle string
	// Nodes are the addresses of nodes, where there are several.
	Nodes string
}

// Values are the chart's values for the local cluster. Runtimes without an image are taken away.
func (i Images) Values() (string, error) {
	runtimes := map[string]any{}
	for _, runtime := range Catalogue() {
		runtimes[runtime.Name] = nil
		built, ok := i.Runtimes[runtime.Name]
		if !ok {
			continue
		}
		pinned, err := built.Pinned()
		if err != nil {
			return "", err
		}
		runtimes[runtime.Name] = pinned
	}
	nats := map[string]any{
		"enabled": true,
		"image":   map[string]any{"repository": i.NATS.Repository(), "tag": i.NATS.Tag()},
	}
	from := []any{map[string]any{"podSelector": map[string]any{}}}
	egress := []any{map[string]any{"to": []any{map[string]any{"podSelector": map[string]any{}}}}}
	if i.Nodes != "" { // tests ask Functions by the API server's proxy, and Functions others that sleep, which gateways answer for
		from = append(from, map[string]any{"ipBlock": map[string]any{"cidr": i.Nodes}})
		egress = append(egress, gateways())
	}
	values := map[string]any{
		"image":    map[string]any{"repository": i.Rouse.Repository(), "tag": i.Rouse.Tag()},
		"runtimes": runtimes,
		"nats":     nats,
		// The node pulls by the Service's name: its configuration has the address, which is therefore fixed.
		"registry": map[string]any{"internal": map[string]any{
			"image":     map[string]any{"repository": i.Registry.Repository(), "tag": i.Registry.Tag()},
			"clusterIP": network.Builds, "pullAddress": node.BuildsHost,
			"persistence": map[string]any{"size": "10Gi"},
		}},
		"caBundle": i.CABundle,
		// All tests run with Functions that have a NetworkPolicy, though the network of one node enforces none. That of several lets them
		// call and be called within their namespaces, as tests do.
		"functions": map[string]any{"networkPolicies": map[string]any{
			"enabled": true,
			"from":    from,
			"egress":  egress,
		}},
	}
	maps.Copy(values, Settings())
	if i.NATSURL != "" {
		values["nats"] = map[string]any{"enabled": false, "external": map[string]any{"url": i.NATSURL}}
		values["stream"] = map[string]any{"replicas": i.StreamReplicas}
	}
	text, err := yaml.Marshal(values)
	return string(text), err
}

// gateways is the rule by which Functions may wake others.
func gateways() map[string]any {
	return map[string]any{
		"to": []any{map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": Namespace}},
			"podSelector":       map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/component": "gateway"}},
		}},
		"ports": []any{map[string]any{"port": 10000, "endPort": 32767}},
	}
}

// Settings are the chart's values for a cluster of tests, whoever runs it.
func Settings() map[string]any {
	return map[string]any{
		// One node would make it XS, and the samples slower than anywhere else.
		"controller": map[string]any{"defaultProfile": "L"},
		// The demo reads each delivery from the log, and nobody wants to wait a minute for a new Function's first sleep.
		"logLevel": "debug",
		"scaling":  map[string]any{"initialCooldownPeriodSeconds": 5},
		// Three times as long as kube-proxy here takes to sync, so that Functions sleep soon.
		"gateway": map[string]any{"graceSeconds": 3},
		// A domain of tests, which no DNS has: callers name the host.
		"apiRules": map[string]any{"enabled": true, "domains": map[string]any{Namespace + "/entrance": "rouse.test"}},
	}
}

// DeletePending are kubectl's arguments for what a helm that was killed leaves: its operation is pending, and later ones refuse to
// start. Only who knows that none runs may use them.
func DeletePending(namespace, name string) []string {
	return []string{
		"--namespace", namespace, "delete", "secrets", "--selector",
		"owner=helm,name=" + name + ",status in (pending-install,pending-upgrade,pending-rollback)",
	}
}

// Helm installs charts.
type Helm struct {
	Binary     string
	Kubeconfig string
	Home       string
	Log        string
}

// Install installs or upgrades Rouse by the chart of a checkout, and waits until it is ready.
func (h Helm) Install(ctx context.Context, repository, values string) error {
	return h.Upgrade(ctx, Namespace, Name, filepath.Join(repository, "charts", "rouse"), values)
}

// Upgrade installs or upgrades a release and waits until it is ready.
func (h Helm) Upgrade(ctx context.Context, namespace, name, chart, values string) error {
	file := filepath.Join(h.Home, "values-"+name+".yaml")
	if err := state.Write(file, values); err != nil {
		return err
	}
	install := command.Command{
		Name: h.Binary, Log: h.Log,
		Env: []string{
			"KUBECONFIG=" + h.Kubeconfig, "HELM_CACHE_HOME=" + filepath.Join(h.Home, "cache"),
			"HELM_CONFIG_HOME=" + filepath.Join(h.Home, "config"), "HELM_DATA_HOME=" + filepath.Join(h.Home, "data"),
		},
		Args: []string{
			"upgrade", "--install", name, chart, "--namespace", namespace, "--create-namespace",
			"--values", file, "--wait", "--timeout", installLimit.String(),
		},
	}
	_, err := install.Run(ctx)
	return err
}

// NATSCluster is the URL of the three servers that the addon runs.
func NATSCluster(replicas int) string {
	servers := make([]string, replicas)
	for n := range servers {
		servers[n] = fmt.Sprintf("nats://nats-%d.nats.nats-system.svc.cluster.local:4222", n)
	}
	return strings.Join(servers, ",")
}
