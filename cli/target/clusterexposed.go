package target

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func apiRulesResource() schema.GroupVersionResource { return v2.GroupVersion.WithResource("apirules") }

func gatewaysResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
}

// maxGateways bounds how many Gateways are read.
const maxGateways = 20

// front holds the properties of a gateway that determine URLs.
type front struct {
	apirule.Gateway

	tls bool
}

// Exposed implements Inventory. Resources that cannot be listed, or do not exist, expose nothing.
func (c *cluster) Exposed(ctx context.Context, namespace string) map[types.NamespacedName][]string {
	apiRules := c.readyAPIRules(ctx, namespace)
	if len(apiRules) == 0 {
		return nil
	}
	fronts := c.ownFronts(ctx)
	for i := range apiRules {
		name := gatewayOf(&apiRules[i])
		if _, known := fronts[name]; !known && len(fronts) < maxGateways {
			fronts[name] = c.front(ctx, name)
		}
	}
	return exposedBy(apiRules, fronts)
}

// readyAPIRules returns the APIRules that may expose Functions of a namespace: those of all namespaces, if the user may list them.
func (c *cluster) readyAPIRules(ctx context.Context, namespace string) []v2.APIRule {
	var ready []v2.APIRule
	add := func(item *json.RawMessage) error {
		var apiRule v2.APIRule
		if json.Unmarshal(*item, &apiRule) == nil && apiRule.Status.State == v2.StateReady {
			ready = append(ready, apiRule)
		}
		return nil
	}
	err := each(ctx, c, apiRulesResource(), "", "", add)
	if err != nil && namespace != "" {
		ready = nil
		err = each(ctx, c, apiRulesResource(), namespace, "", add)
	}
	if err != nil {
		return nil
	}
	return ready
}

// ownFronts returns the gateways that Rouse implements, from the arguments of its pods.
func (c *cluster) ownFronts(ctx context.Context) map[types.NamespacedName]front {
	fronts := map[types.NamespacedName]front{}
	pods, err := c.system.pods(ctx, c.options.RouseNamespace, gatewayPods)
	if err != nil {
		return fronts
	}
	for i := range pods {
		for j := range pods[i].Spec.Containers {
			addFronts(fronts, &pods[i].Spec.Containers[j])
		}
	}
	return fronts
}

func addFronts(fronts map[types.NamespacedName]front, gateway *corev1.Container) {
	arguments := slices.Concat(gateway.Command, gateway.Args)
	tls := slices.ContainsFunc(arguments, func(a string) bool { return strings.HasPrefix(a, "--tls-address=") && a != "--tls-address=" })
	for _, argument := range arguments {
		if text, found := strings.CutPrefix(argument, "--gateway-domain="); found {
			name, domain, _ := strings.Cut(text, "=")
			fronts[nameOf(name)] = front{apirule.Gateway{Hosts: []string{"*." + domain}}, tls}
		}
	}
}

// front returns a Gateway of Gateway API. An unreadable one has no hosts, and is assumed to use TLS.
func (c *cluster) front(ctx context.Context, name types.NamespacedName) front {
	found, err := c.objects.Resource(gatewaysResource()).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return front{tls: true}
	}
	listeners, _, _ := unstructured.NestedSlice(found.Object, "spec", "listeners")
	var seen front
	for _, each := range listeners {
		listener, _ := each.(map[string]any)
		host, _, _ := unstructured.NestedString(listener, "hostname")
		protocol, _, _ := unstructured.NestedString(listener, "protocol")
		if protocol == "HTTP" || protocol == "HTTPS" {
			seen.Hosts = append(seen.Hosts, host)
			seen.tls = seen.tls || protocol == "HTTPS"
		}
	}
	return seen
}

func gatewayOf(apiRule *v2.APIRule) types.NamespacedName {
	if apiRule.Spec.Gateway == nil {
		return types.NamespacedName{}
	}
	return nameOf(*apiRule.Spec.Gateway)
}

func nameOf(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// exposedBy returns the URLs that lead to each Service, each once, in the order of the rules.
func exposedBy(apiRules []v2.APIRule, fronts map[types.NamespacedName]front) map[types.NamespacedName][]string {
	exposed := map[types.NamespacedName][]string{}
	for i := range apiRules {
		apiRule := &apiRules[i]
		if len(apiRule.Spec.Hosts) == 0 {
			continue
		}
		at := fronts[gatewayOf(apiRule)]
		host, ok := apirule.FullHost(apiRule.Spec.Hosts[0], &at.Gateway)
		if !ok {
			continue // a short host with an unknown domain
		}
		scheme := "http://"
		if at.tls {
			scheme = "https://"
		}
		for j := range apiRule.Spec.Rules {
			target, named := apirule.TargetOf(apiRule, &apiRule.Spec.Rules[j])
			path := apiRule.Spec.Rules[j].Path
			if path == "/*" {
				path = "/"
			}
			url := scheme + host + path
			if named && !slices.Contains(exposed[target.Service], url) {
				exposed[target.Service] = append(exposed[target.Service], url)
			}
		}
	}
	return exposed
}
