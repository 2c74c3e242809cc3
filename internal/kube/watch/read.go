package watch

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// read decides from what the cache has. What it returns points into the cache: do not change it.
func (w *watch) read(ctx context.Context) ([]apirule.Exposure, error) {
	rules, services, gateways := &v2.APIRuleList{}, &corev1.ServiceList{}, &gatewayapi.GatewayList{}
	for name, list := range map[string]client.ObjectList{"APIRules": rules, "Services": services, "Gateways": gateways} {
		if name == "Gateways" && !w.settings.GatewayAPI || slices.ContainsFunc(w.missing, func(k kind) bool { return k.name == name }) {
			continue
		}
		if err := w.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", name, err)
		}
	}
	cluster := &apirule.Objects{
		Gateways:    make(map[types.NamespacedName]apirule.Gateway, len(gateways.Items)+len(w.settings.Domains)),
		Services:    make(map[types.NamespacedName]apirule.ServiceInfo, len(services.Items)),
		Authorizers: w.settings.Authorizers,
	}
	for i := range gateways.Items {
		cluster.Gateways[client.ObjectKeyFromObject(&gateways.Items[i])] = apirule.Gateway{Hosts: hostsOf(&gateways.Items[i])}
	}
	for gateway, domain := range w.settings.Domains {
		cluster.Gateways[gateway] = apirule.Gateway{Hosts: []string{"*." + domain}}
	}
	for i := range services.Items {
		cluster.Services[client.ObjectKeyFromObject(&services.Items[i])] = apirule.ServiceInfoOf(&services.Items[i])
	}
	all := make([]*v2.APIRule, len(rules.Items))
	for i := range rules.Items {
		all[i] = &rules.Items[i]
	}
	return w.decider.Decide(all, cluster), nil
}

// hostsOf are the hosts of the listeners of a Gateway that take HTTP, with or without TLS. One that takes every host has an empty one.
func hostsOf(gateway *gatewayapi.Gateway) []string {
	var hosts []string
	for i := range gateway.Spec.Listeners {
		listener := &gateway.Spec.Listeners[i]
		if listener.Protocol != gatewayapi.HTTPProtocolType && listener.Protocol != gatewayapi.HTTPSProtocolType {
			continue
		}
		host := ""
		if listener.Hostname != nil {
			host = string(*listener.Hostname)
		}
		hosts = append(hosts, host)
	}
	return hosts
}
