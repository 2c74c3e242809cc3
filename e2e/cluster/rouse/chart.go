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

// The release of the chart and its namespace.
const (
	release   = "rouse"
	namespace = "rouse-system"
)

// enabled is the key of the chart that switches a part on.
const enabled = "enabled"

// The chart's registry for the images of Functions. The node pulls by the Service's name, and its configuration
// contains the address.
const (
	buildsHost    = "rouse-registry.rouse-system.svc.cluster.local:5000"
	buildsAddress = "10.202.0.51"
)

// Registries maps the hosts of registries that the cluster's nodes need to their URLs.
func Registries() map[string]string {
	return map[string]string{buildsHost: "http://" + buildsAddress + ":5000"}
}

//go:embed nats.yaml
var natsManifest string

// Images holds the images and settings of the chart.
type Images struct {
	Rouse    image.Image
	NATS     image.Image
	Registry image.Image
	Runtimes map[string]image.Image
	// NATSURL is the URL of an external NATS; empty: the chart's own.
	NATSURL string
	// StreamReplicas is the number of stream replicas on that NATS.
	StreamReplicas int
	// CABundle holds the certificates that builds trust, in PEM.
	CABundle string
	// StandIns is how many a namespace may have. Only those that ask for them have any.
	StandIns int
	// EventSchemas is the ConfigMap with the schemas of events. Tests make it.
	EventSchemas string
	// Dashboard lets users log in to the pages.
	Dashboard bool
	// Nodes is the address range of several nodes.
	Nodes string
}

// Values returns the chart's values for the local cluster. Runtimes without an image are removed.
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
		enabled: true,
		"image": map[string]any{"repository": i.NATS.Repository(), "tag": i.NATS.Tag()},
	}
	from := []any{map[string]any{"podSelector": map[string]any{}}}
	egress := []any{map[string]any{"to": []any{map[string]any{"podSelector": map[string]any{}}}}}
	if i.Nodes != "" { // tests call Functions through the API server's proxy, and Functions call sleeping ones, for which gateways respond
		from = append(from, map[string]any{"ipBlock": map[string]any{"cidr": i.Nodes}})
		egress = append(egress, gateways())
	}
	functions := map[string]any{"networkPolicies": map[string]any{
		enabled:  true,
		"from":   from,
		"egress": egress,
	}}
	if i.StandIns > 0 {
		functions["standIns"] = map[string]any{"perNamespace": i.StandIns}
	}
	values := map[string]any{
		"image":    map[string]any{"repository": i.Rouse.Repository(), "tag": i.Rouse.Tag()},
		"runtimes": runtimes,
		"nats":     nats,
		// The node pulls by the Service's name: its configuration contains the address, which is therefore fixed.
		"registry": map[string]any{"internal": map[string]any{
			"image":     map[string]any{"repository": i.Registry.Repository(), "tag": i.Registry.Tag()},
			"clusterIP": buildsAddress, "pullAddress": buildsHost,
			"persistence": map[string]any{"size": "10Gi"},
		}},
		"caBundle": i.CABundle,
		// A single node would select XS, with slower samples.
		"controller": map[string]any{"defaultProfile": "L"},
		// The demo reads each delivery from the log, and a minute's delay before a new Function's first sleep would be
		// too long.
		"logLevel": "debug",
		"scaling":  map[string]any{"initialCooldownPeriodSeconds": 5},
		// Three times the sync time of kube-proxy here, so that Functions sleep soon.
		"gateway": map[string]any{"graceSeconds": 3},
		// A domain for tests without DNS: callers set the Host header.
		"apiRules": map[string]any{
			enabled: true, "domains": map[string]any{namespace + "/entrance": "rouse.test"},
			"tls": map[string]any{"secretNames": []any{"entrance-tls"}}, // tests make it
		},
		// All tests run with NetworkPolicies for Functions, though the network of a single node does not enforce them.
		// With several nodes the policies allow calls within namespaces, as tests make.
		"functions": functions,
	}
	if i.EventSchemas != "" {
		values["eventbridge"] = map[string]any{"schemas": i.EventSchemas}
	}
	if i.Dashboard {
		values["dashboard"] = map[string]any{enabled: true, "allowChanges": true}
	}
	if i.NATSURL != "" {
		values["nats"] = map[string]any{enabled: false, "external": map[string]any{"url": i.NATSURL}}
		values["stream"] = map[string]any{"replicas": i.StreamReplicas}
	}
	text, err := yaml.Marshal(values)
	return string(text), err
}

// gateways returns the rule by which Functions may wake others.
func gateways() map[string]any {
	return map[string]any{
		"to": []any{map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
			"podSelector":       map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/component": "gateway"}},
		}},
		"ports": []any{map[string]any{"port": 10000, "endPort": 32767}},
	}
}

// natsURL returns the URL of the addon's servers.
func natsURL(replicas int) string {
	servers := make([]string, replicas)
	for n := range servers {
		servers[n] = fmt.Sprintf("nats://nats-%d.nats.nats-system.svc.cluster.local:4222", n)
	}
	return strings.Join(servers, ",")
}

// natsManifests renders a NATS cluster, which is not part of the chart.
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
