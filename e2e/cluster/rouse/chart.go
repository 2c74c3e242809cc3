package rouse

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/image"
)

// The release of the chart, and its namespace.
const (
	release   = "rouse"
	namespace = "rouse-system"
)

// The chart's registry, with the images of Functions. The node pulls by the Service's name, and its configuration has the address.
const (
	buildsHost    = "rouse-registry.rouse-system.svc.cluster.local:5000"
	buildsAddress = "10.202.0.51"
)

// Registries are those that the cluster's nodes have to find, by their hosts.
func Registries() map[string]string {
	return map[string]string{buildsHost: "http://" + buildsAddress + ":5000"}
}

//go:embed nats.yaml
var natsManifest string

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
			"clusterIP": buildsAddress, "pullAddress": buildsHost,
			"persistence": map[string]any{"size": "10Gi"},
		}},
		"caBundle": i.CABundle,
		// One node would make it XS, and the samples slower than anywhere else.
		"controller": map[string]any{"defaultProfile": "L"},
		// The demo reads each delivery from the log, and nobody wants to wait a minute for a new Function's first sleep.
		"logLevel": "debug",
		"scaling":  map[string]any{"initialCooldownPeriodSeconds": 5},
		// Three times as long as kube-proxy here takes to sync, so that Functions sleep soon.
		"gateway": map[string]any{"graceSeconds": 3},
		// A domain of tests, which no DNS has: callers name the host.
		"apiRules": map[string]any{"enabled": true, "domains": map[string]any{namespace + "/entrance": "rouse.test"}},
		// All tests run with Functions that have a NetworkPolicy, though the network of one node enforces none. That of several lets them
		// call and be called within their namespaces, as tests do.
		"functions": map[string]any{"networkPolicies": map[string]any{
			"enabled": true,
			"from":    from,
			"egress":  egress,
		}},
	}
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
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
			"podSelector":       map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/component": "gateway"}},
		}},
		"ports": []any{map[string]any{"port": 10000, "endPort": 32767}},
	}
}

// natsURL is the URL of the three servers that the addon runs.
func natsURL(replicas int) string {
	servers := make([]string, replicas)
	for n := range servers {
		servers[n] = fmt.Sprintf("nats://nats-%d.nats.nats-system.svc.cluster.local:4222", n)
	}
	return strings.Join(servers, ",")
}

// natsManifests renders a NATS of several servers, as the chart itself does not bring one.
func natsManifests(nats image.Image, servers int) (string, error) {
	values := struct {
		Image   string
		Servers []string
	}{Image: nats.Reference()}
	for n := range servers {
		values.Servers = append(values.Servers, fmt.Sprintf("nats-%d", n))
	}
	parsed, err := template.New("nats").Parse(natsManifest)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, values)
	return text.String(), err
}
