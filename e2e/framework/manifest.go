package framework

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Function is a Function as a feature describes it, with inline source unless it comes from Git.
type Function struct {
	Name    string
	Runtime string
	Source  string
	// Dependencies is a package.json or a requirements.txt.
	Dependencies string
	// Git is where the source comes from in place of Source.
	Git *Git
	// Replicas is how many pods; 0 leaves it to the default, one.
	Replicas int
	// Asleep scales the Function between 0 and Max by its backlog; else it has one replica.
	Asleep bool
	Max    int
	// ReadOnlyRoot mounts the root file system read-only, with a volume at /tmp.
	ReadOnlyRoot bool
	// Annotations tune its scaling, e.g. rouse.run/polling-interval.
	Annotations map[string]string
	// Spec has further fields of the spec.
	Spec map[string]any
}

// Git is a place in a Git repository.
type Git struct {
	URL, Reference, BaseDir string
	// AuthType is basic or key; empty for a public repository.
	AuthType string
	// Secret has the credentials.
	Secret string
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
		"source":  f.source(),
		"resourceConfiguration": map[string]any{
			"function": map[string]any{"resources": map[string]any{
				"requests": map[string]any{"cpu": "20m", "memory": "32Mi"},
				"limits":   map[string]any{"memory": "256Mi"},
			}},
			// Small enough that a machine with two cores runs some at once, and free to use idle processors.
			"build": map[string]any{"resources": map[string]any{
				"requests": map[string]any{"cpu": "200m", "memory": "200Mi"},
				"limits":   map[string]any{"memory": "1Gi"},
			}},
		},
	}
	maps.Copy(spec, f.Spec)
	if f.Replicas > 0 {
		spec["replicas"] = f.Replicas
	}
	if f.Asleep {
		spec["scaleConfig"] = map[string]any{"minReplicas": 0, "maxReplicas": max(f.Max, 1)}
	}
	if f.ReadOnlyRoot {
		spec["containerSecurityContext"] = map[string]any{"readOnlyRootFilesystem": true}
	}
	return document("serverless.kyma-project.io/v1alpha2", "Function", f.Name, f.Annotations, spec)
}

func (f Function) source() map[string]any {
	if f.Git == nil {
		inline := map[string]any{"source": f.Source}
		if f.Dependencies != "" {
			inline["dependencies"] = f.Dependencies
		}
		return map[string]any{"inline": inline}
	}
	repository := map[string]any{"url": f.Git.URL, "reference": f.Git.Reference, "baseDir": f.Git.BaseDir}
	if f.Git.AuthType != "" {
		repository["auth"] = map[string]any{"type": f.Git.AuthType, "secretName": f.Git.Secret}
	}
	return map[string]any{"gitRepository": repository}
}

// Secret is the manifest of an opaque Secret.
func Secret(name string, labels, data map[string]string) string {
	return object("v1", "Secret", map[string]any{"name": name, "labels": labels}, map[string]any{"stringData": data})
}

// ConfigMap is the manifest of a ConfigMap.
func ConfigMap(name string, data map[string]string) string {
	return object("v1", "ConfigMap", map[string]any{"name": name}, map[string]any{"data": data})
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
	return object(apiVersion, kind, metadata, map[string]any{"spec": spec})
}

func object(apiVersion, kind string, metadata, content map[string]any) string {
	all := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(all, content)
	out, err := yaml.Marshal(all)
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return string(out)
}

func splitDocuments(manifest string) []string {
	return strings.Split("\n"+manifest, "\n---")
}
