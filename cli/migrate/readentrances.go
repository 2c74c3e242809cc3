package migrate

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kymaGateway is the gateway of APIRules that name no other.
const kymaGateway = kymaSystem + "/kyma-gateway"

// entrances finds Istio's Gateways that APIRules name: their domains and certificates are values of the chart.
func (r reading) entrances(ctx context.Context, s *Survey) error {
	named := map[string]bool{kymaGateway: true}
	for i := range s.APIRules {
		named[s.APIRules[i].Gateway] = true
	}
	return r.eachServed(ctx, schema.GroupResource{Group: "networking.istio.io", Resource: "gateways"}, func(found *unstructured.Unstructured, gvr schema.GroupVersionResource) {
		object := objectOf(gvr, found)
		if !named[object.key()] {
			return
		}
		servers, _, _ := unstructured.NestedSlice(found.Object, "spec", "servers")
		seen := map[string]bool{}
		for _, each := range servers {
			server, _ := each.(map[string]any)
			for _, now := range serverNow(object.key(), s.Namespace, server) {
				if !seen[now] {
					seen[now] = true
					s.Relics = append(s.Relics, Relic{object, now})
				}
			}
		}
	})
}

// serverNow has the values of the chart for a server of a Gateway.
func serverNow(gateway, namespace string, server map[string]any) []string {
	var all []string
	hosts, _, _ := unstructured.NestedStringSlice(server, "hosts")
	for _, host := range hosts {
		_, host = cutNamespace(host)
		if domain, wildcard := strings.CutPrefix(host, "*."); wildcard {
			all = append(all, fmt.Sprintf("serves %s: set apiRules.domains.%s=%s", host, gateway, domain))
		}
	}
	if secret, _, _ := unstructured.NestedString(server, "tls", "credentialName"); secret != "" {
		all = append(all, fmt.Sprintf("has the certificate of Secret %s: copy it to namespace %s and add it to apiRules.tls.secretNames", secret, namespace))
	}
	return all
}

// cutNamespace cuts the namespace off a host of a Gateway.
func cutNamespace(host string) (namespace, name string) {
	if namespace, name, found := strings.Cut(host, "/"); found {
		return namespace, name
	}
	return "", host
}

// authorizers finds those of Kyma's Istio resource, which extAuth of APIRules names.
func (r reading) authorizers(ctx context.Context, s *Survey) error {
	return r.eachServed(ctx, schema.GroupResource{Group: "operator.kyma-project.io", Resource: "istios"}, func(found *unstructured.Unstructured, gvr schema.GroupVersionResource) {
		all, _, _ := unstructured.NestedSlice(found.Object, "spec", "config", "authorizers")
		for _, each := range all {
			authorizer, _ := each.(map[string]any)
			name, _, _ := unstructured.NestedString(authorizer, "name")
			service, _, _ := unstructured.NestedString(authorizer, "service")
			s.Relics = append(s.Relics, Relic{objectOf(gvr, found), fmt.Sprintf("has authorizer %s (%s): add it to apiRules.authorizers", name, service)})
		}
	})
}

// scrapes finds what scrapes the metrics of Kyma's pods.
func (r reading) scrapes(ctx context.Context, s *Survey) error {
	for _, resource := range []string{"servicemonitors", "podmonitors"} {
		gvr := schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: resource}
		err := r.objects.Each(ctx, gvr, kymaSystem, "", maxObjects, func(found *unstructured.Unstructured) error {
			if concerns(found) {
				s.Relics = append(s.Relics, Relic{objectOf(gvr, found), "scrapes Kyma's pods: metrics.podMonitor.enabled scrapes those of Rouse"})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachServed calls do with each object of a kind, in the version that the cluster prefers.
func (r reading) eachServed(
	ctx context.Context, resource schema.GroupResource, do func(*unstructured.Unstructured, schema.GroupVersionResource),
) error {
	kubernetes, _ := r.conn.Kubernetes() // Objects come from a cluster
	versions, err := kubernetes.Served(ctx, resource)
	if err != nil || len(versions) == 0 {
		return err
	}
	gvr := resource.WithVersion(versions[0])
	return r.objects.Each(ctx, gvr, "", "", maxObjects, func(found *unstructured.Unstructured) error {
		do(found, gvr)
		return nil
	})
}
