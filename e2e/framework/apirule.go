package framework

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds that lead from outside to a Service.
var (
	APIRuleGVK   = schema.GroupVersionKind{Group: "gateway.kyma-project.io", Version: "v2", Kind: "APIRule"}
	HTTPRouteGVK = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
	gatewayGVK   = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
)

// The Gateway that APIRules name where they do not name another.
const (
	gatewayNamespace = "kyma-system"
	gatewayName      = "kyma-gateway"
)

// What the local cluster's release answers for itself, without Gateway API.
const (
	OwnGateway = System + "/entrance"
	OwnDomain  = "rouse.test"
	// Entrance is where requests to its hosts come in, in the cluster.
	Entrance = "http://rouse-gateway-http." + System + ".svc.cluster.local"
)

// APIRule exposes port 80 of a Service of its namespace to requests of every path.
type APIRule struct {
	Name    string
	Host    string // a single label, to which the Gateway's domain is added
	Service string
	// Gateway as namespace/name; empty: that of Gateway API.
	Gateway string
	// Methods that it takes; GET alone when there are none.
	Methods []string
	// JWT is the rule's jwt; without it everybody may.
	JWT map[string]any
}

// YAML is the APIRule's manifest.
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

// AwaitState waits until an APIRule has the state and a description with the part.
func (c *Cluster) AwaitState(ctx context.Context, namespace, name, state, part string, timeout time.Duration) error {
	what := fmt.Sprintf("APIRule %s/%s to be %s with %q", namespace, name, state, part)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		object, err := c.object(ctx, namespace, APIRuleGVK, name)
		if err != nil {
			return false, err
		}
		got, _, _ := unstructured.NestedString(object.Object, "status", "state") // it may have none yet
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
