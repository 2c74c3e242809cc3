package framework

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Function describes a Function, with inline source unless it comes from Git.
type Function struct {
	Name    string
	Runtime string
	Source  string
	// Dependencies is a package.json or a requirements.txt.
	Dependencies string
	// Git is the origin of the source, in place of Source.
	Git *Git
	// Replicas is the number of pods; 0 means the default, one.
	Replicas int
	// Asleep scales the Function between 0 and Max by its backlog; otherwise it has one replica.
	Asleep bool
	Max    int
	// CPU is what a pod requests; empty means 20m, of which some ninety fit on two cores.
	CPU string
	// ReadOnlyRoot mounts the root file system read-only, with a volume at /tmp.
	ReadOnlyRoot bool
	// Annotations are annotations such as rouse.run/polling-interval.
	Annotations map[string]string
	// Spec contains further fields of the spec.
	Spec map[string]any
}

// Git is a directory in a Git repository.
type Git struct {
	URL, Reference, BaseDir string
	// AuthType is basic or key; empty for a public repository.
	AuthType string
	// Secret is the name of the Secret with the credentials.
	Secret string
}

// Fast returns annotations with which a Function falls asleep soon, so that features do not wait for the defaults of
// production.
func Fast() map[string]string {
	return map[string]string{
		"rouse.run/polling-interval": "1",
		"rouse.run/cooldown-period":  "5",
	}
}

// YAML returns the Function's manifest.
func (f Function) YAML() string {
	spec := map[string]any{
		"runtime": f.Runtime,
		"source":  f.source(),
		"resourceConfiguration": map[string]any{
			"function": map[string]any{"resources": map[string]any{
				"requests": map[string]any{"cpu": cmp.Or(f.CPU, "20m"), "memory": "32Mi"},
				"limits":   map[string]any{"memory": "256Mi"},
			}},
			// Small enough to run some concurrently on two cores, without a limit on idle CPUs.
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

// Secret returns the manifest of an opaque Secret.
func Secret(name string, labels, data map[string]string) string {
	return object("v1", "Secret", map[string]any{"name": name, "labels": labels}, map[string]any{"stringData": data})
}

// ConfigMap returns the manifest of a ConfigMap.
func ConfigMap(name string, data map[string]string) string {
	return object("v1", "ConfigMap", map[string]any{"name": name}, map[string]any{"data": data})
}

// Subscription delivers events of a type to a Service of its namespace.
type Subscription struct {
	Name      string
	Namespace string
	Type      string
	Sink      string // name of a Service
	InFlight  int    // maxInFlightMessages; the default when 0
	Source    string // Source when empty
}

// Source is the source of every event that features publish.
const Source = "rouse-e2e"

// YAML returns the Subscription's manifest.
func (s Subscription) YAML() string {
	spec := map[string]any{
		"source": cmp.Or(s.Source, Source),
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
		panic(err) // maps of strings and numbers can always be encoded
	}
	return string(out)
}

func splitDocuments(manifest string) []string {
	return strings.Split("\n"+manifest, "\n---")
}

// Function returns a Function from the API server.
func (c *Cluster) Function(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	function := &unstructured.Unstructured{}
	function.SetGroupVersionKind(FunctionGVK)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, function); err != nil {
		return nil, fmt.Errorf("get Function %s/%s: %w", namespace, name, err)
	}
	return function, nil
}

// Annotate sets annotations of a Function and keeps its other ones. An empty value removes one.
func (c *Cluster) Annotate(ctx context.Context, namespace, name string, annotations map[string]string) error {
	values := map[string]any{}
	for key, value := range annotations {
		values[key] = value
		if value == "" {
			values[key] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	function := &unstructured.Unstructured{}
	function.SetGroupVersionKind(FunctionGVK)
	function.SetNamespace(namespace)
	function.SetName(name)
	if err := c.Patch(ctx, function, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Answer sends one request to a Function and returns the response body.
func (c *Cluster) Answer(ctx context.Context, namespace, name string) (string, error) {
	status, text, err := c.Request(ctx, http.MethodGet, namespace, name, "", nil, nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	return text, err
}

// AwaitAnswer waits until a Function returns exactly this body.
func (c *Cluster) AwaitAnswer(ctx context.Context, namespace, name, want string, timeout time.Duration) error {
	return Await(ctx, timeout, fmt.Sprintf("%s/%s to answer %q", namespace, name, want), func(ctx context.Context) (bool, error) {
		answer, err := c.Answer(ctx, namespace, name)
		if err == nil && answer != want {
			err = fmt.Errorf("it answers %q", answer)
		}
		return err == nil, err
	})
}

// AwaitMessage waits until a condition of a Function has the status and a message that contains all parts.
func (c *Cluster) AwaitMessage(
	ctx context.Context, namespace, name, condition, status string, timeout time.Duration, parts ...string,
) (Condition, error) {
	var got Condition
	what := fmt.Sprintf("%s/%s to be %s=%s with %q", namespace, name, condition, status, parts)
	err := Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		conditions, err := c.Conditions(ctx, namespace, FunctionGVK, name)
		if err != nil {
			return false, err
		}
		got = conditions[condition]
		if got.Status != status {
			return false, fmt.Errorf("it is %q: all conditions: %v", got.Status, conditions)
		}
		for _, part := range parts {
			if !strings.Contains(got.Message, part) {
				return false, fmt.Errorf("%q does not say %q", got.Message, part)
			}
		}
		return true, nil
	})
	return got, err
}

// Events returns the Events about a Function.
func (c *Cluster) Events(ctx context.Context, namespace, function string) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list events of %s: %w", namespace, err)
	}
	var found []corev1.Event
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == FunctionGVK.Kind && event.InvolvedObject.Name == function {
			found = append(found, event)
		}
	}
	return found, nil
}

// AwaitNoPods waits until a Function has no pods, including terminating ones.
func (c *Cluster) AwaitNoPods(ctx context.Context, namespace, function string, timeout time.Duration) error {
	return Await(ctx, timeout, "all pods of "+function+" to be gone", func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := c.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{FunctionLabel: function})
		return err == nil && len(pods.Items) == 0, err
	})
}

// DeleteSecret deletes a Secret.
func (c *Cluster) DeleteSecret(ctx context.Context, namespace, name string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Delete(ctx, secret); err != nil {
		return fmt.Errorf("delete Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

// The kinds that expose a Service.
var (
	APIRuleGVK   = schema.GroupVersionKind{Group: "gateway.kyma-project.io", Version: "v2", Kind: "APIRule"}
	HTTPRouteGVK = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
	gatewayGVK   = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
)

// The Gateway that APIRules use by default.
const (
	gatewayNamespace = "kyma-system"
	gatewayName      = "kyma-gateway"
)

// The gateway and domain that the local cluster's release serves itself, without Gateway API.
const (
	OwnGateway = System + "/entrance"
	OwnDomain  = "rouse.test"
	// Entrance is the URL within the cluster for requests to its hosts.
	Entrance = "http://rouse-gateway-http." + System + ".svc.cluster.local"
)

// APIRule exposes port 80 of a Service of its namespace on all paths.
type APIRule struct {
	Name    string
	Host    string // a single label, to which the Gateway's domain is added
	Service string
	// Gateway is namespace/name of the gateway; empty: the Gateway of Gateway API.
	Gateway string
	// Methods are the allowed methods; by default GET.
	Methods []string
	// JWT is the rule's jwt; without it access is public.
	JWT map[string]any
}

// YAML returns the APIRule's manifest.
func (a APIRule) YAML() string {
	gateway := a.Gateway
	if gateway == "" {
		gateway = gatewayNamespace + "/" + gatewayName
	}
	methods := a.Methods
	if len(methods) == 0 {
		methods = []string{"GET"}
	}
	rule := map[string]any{"path": "/*", "methods": methods}
	if a.JWT == nil {
		rule["noAuth"] = true
	} else {
		rule["jwt"] = a.JWT
	}
	return document(APIRuleGVK.GroupVersion().String(), APIRuleGVK.Kind, a.Name, nil, map[string]any{
		"gateway": gateway,
		"hosts":   []string{a.Host},
		"service": map[string]any{"name": a.Service, "port": 80},
		"rules":   []any{rule},
	})
}

// AwaitState waits until an APIRule has the state and a description that contains the part.
func (c *Cluster) AwaitState(ctx context.Context, namespace, name, state, part string, timeout time.Duration) error {
	what := fmt.Sprintf("APIRule %s/%s to be %s with %q", namespace, name, state, part)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		object, err := c.object(ctx, namespace, APIRuleGVK, name)
		if err != nil {
			return false, err
		}
		got, _, _ := unstructured.NestedString(object.Object, "status", "state") // it may be empty
		description, _, _ := unstructured.NestedString(object.Object, "status", "description")
		if got != state || !strings.Contains(description, part) {
			return false, fmt.Errorf("is %q: %s", got, description)
		}
		return true, nil
	})
}

func (c *Cluster) object(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return object, nil
}
