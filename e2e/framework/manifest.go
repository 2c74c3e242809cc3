package framework

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Function is a Function with inline source, as a feature describes it.
type Function struct {
	Name    string
	Runtime string
	Source  string
	// Asleep scales the Function between 0 and Max by its backlog; else it has one replica.
	Asleep bool
	Max    int
	// ReadOnlyRoot mounts the root file system read-only, with a volume at /tmp.
	ReadOnlyRoot bool
	// Annotations tune its scaling, e.g. rouse.run/polling-interval.
	Annotations map[string]string
}

// Fast makes a Function fall asleep soon, so that features do not wait for defaults made for production.
func Fast() map[string]string {
	return map[string]string{
		"rouse.run/polling-interval": "1",
		"rouse.run/cooldown-period":  "5",
	}
}

// YAML is the Function's manifest.
func (f Function) YAML() string {
	spec := map[string]any{
		"runtime": f.Runtime,
		"source":  map[string]any{"inline": map[string]any{"source": f.Source}},
		"resourceConfiguration": map[string]any{
			"function": map[string]any{"resources": map[string]any{
				"requests": map[string]any{"cpu": "20m", "memory": "32Mi"},
				"limits":   map[string]any{"memory": "256Mi"},
			}},
		},
	}
	if f.Asleep {
		spec["scaleConfig"] = map[string]any{"minReplicas": 0, "maxReplicas": max(f.Max, 1)}
	}
	if f.ReadOnlyRoot {
		spec["containerSecurityContext"] = map[string]any{"readOnlyRootFilesystem": true}
	}
	return document("serverless.kyma-project.io/v1alpha2", "Function", f.Name, f.Annotations, spec)
}

// Subscription delivers events of a type to a Service of its namespace.
type Subscription struct {
	Name      string
	Namespace string
	Type      string
	Sink      string // Service name
	InFlight  int    // maxInFlightMessages; the default when 0
}

// Source is the source of every event that features publish.
const Source = "rouse-e2e"

// YAML is the Subscription's manifest.
func (s Subscription) YAML() string {
	spec := map[string]any{
		"source": Source,
		"types":  []string{s.Type},
		"sink":   fmt.Sprintf("http://%s.%s.svc.cluster.local", s.Sink, s.Namespace),
	}
	if s.InFlight > 0 {
		spec["config"] = map[string]string{"maxInFlightMessages": strconv.Itoa(s.InFlight)}
	}
	return document("eventing.kyma-project.io/v1alpha2", "Subscription", s.Name, nil, spec)
}

func document(apiVersion, kind, name string, annotations map[string]string, spec map[string]any) string {
	metadata := map[string]any{"name": name}
	if len(annotations) > 0 {
		metadata["annotations"] = maps.Clone(annotations)
	}
	out, err := yaml.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "spec": spec})
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return string(out)
}

func splitDocuments(manifest string) []string {
	return strings.Split("\n"+manifest, "\n---")
}
