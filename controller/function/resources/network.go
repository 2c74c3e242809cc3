package resources

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
)

// PortName is the name of the port of a Function's Service.
const PortName = "http"

// Service makes the Function reachable as <name>.<namespace>.svc. Its annotation passes on until when the Function is
// debugged, for components that watch Services and not Functions.
func Service(fn *v1alpha2.Function) *corev1ac.ServiceApplyConfiguration {
	service := corev1ac.Service(fn.Name, fn.Namespace)
	if until := v1alpha2.DebugUntil(fn.Annotations); until != nil {
		service.WithAnnotations(until)
	}
	return service.
		WithLabels(objectLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(SelectorLabels(fn)).
			WithPorts(corev1ac.ServicePort().
				WithName(PortName).
				WithProtocol(corev1.ProtocolTCP).
				WithPort(80).
				WithTargetPort(intstr.FromInt32(Port))))
}

// NetworkRules are the installation's rules for the NetworkPolicies of Functions.
type NetworkRules struct {
	// Callers are the pods of the installation that call Functions: eventbridges, gateways and scalers.
	Callers []networkingv1.NetworkPolicyPeer `json:"callers"`
	// From are further callers. A peer without a namespace is in the Function's own.
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// Publisher is where the installation receives events.
	Publisher Publisher `json:"publisher"`
	// DNSTo are the DNS servers; empty: any address.
	DNSTo []networkingv1.NetworkPolicyPeer `json:"dnsTo,omitempty"`
	// DNSPorts are the ports of the DNS servers.
	DNSPorts []int32 `json:"dnsPorts"`
	// Egress lists further destinations of Functions.
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitempty"`
}

// Publisher is the installation's own publish endpoint.
type Publisher struct {
	// Address is its URL.
	Address string `json:"address"`
	// To are its pods, and Ports the ports on which they listen: policies match pods, not Services.
	To    []networkingv1.NetworkPolicyPeer `json:"to"`
	Ports []int32                          `json:"ports"`
}

// NetworkPolicyName names the NetworkPolicy of a Function. The prefix distinguishes it from policies that users named
// after their Functions.
func NetworkPolicyName(function string) string { return "rouse-" + function }

// NetworkPolicy restricts the callers and the destinations of a Function's pods to the installation's rules. Only the
// pod selector depends on the Function. Builds run in other pods and are not restricted. former lists earlier addresses
// of the installation that pods may still use.
func NetworkPolicy(fn *v1alpha2.Function, settings *Settings, former ...string) (*networkingv1ac.NetworkPolicyApplyConfiguration, error) {
	rules := settings.Network
	spec, err := applyconfig.Of[networkingv1ac.NetworkPolicySpecApplyConfiguration](networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: SelectorLabels(fn)},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: slices.Concat(rules.Callers, rules.From), Ports: ports(corev1.ProtocolTCP, Port),
		}},
		Egress: egress(settings, former),
	})
	if err != nil {
		return nil, fmt.Errorf("build NetworkPolicy: %w", err)
	}
	return networkingv1ac.NetworkPolicy(NetworkPolicyName(fn.Name), fn.Namespace).
		WithLabels(internalLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(spec), nil
}

func egress(settings *Settings, former []string) []networkingv1.NetworkPolicyEgressRule {
	rules := settings.Network
	allowed := []networkingv1.NetworkPolicyEgressRule{
		{To: rules.DNSTo, Ports: append(ports(corev1.ProtocolUDP, rules.DNSPorts...), ports(corev1.ProtocolTCP, rules.DNSPorts...)...)},
		{To: rules.Publisher.To, Ports: ports(corev1.ProtocolTCP, rules.Publisher.Ports...)},
	}
	if settings.PublisherAddress != rules.Publisher.Address {
		allowed = append(allowed, egressTo(settings.PublisherAddress)...)
	}
	allowed = append(allowed, egressTo(settings.TraceCollectorEndpoint)...)
	for _, address := range former {
		if address != rules.Publisher.Address {
			allowed = append(allowed, egressTo(address)...)
		}
	}
	return append(allowed, rules.Egress...)
}

// egressTo allows the destination of a URL of the installation as far as a policy can: the port at an IP address, or at
// the pods of a Service's namespace, which should listen on the Service's port. A policy cannot match a host outside of
// the cluster, and its port is not opened to the world.
func egressTo(address string) []networkingv1.NetworkPolicyEgressRule {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return nil
	}
	peer, ok := peerOf(parsed.Hostname())
	if !ok {
		return nil
	}
	port, err := strconv.ParseInt(parsed.Port(), 10, 32)
	switch {
	case err == nil:
	case parsed.Scheme == "https":
		port = 443
	default:
		port = 80
	}
	return []networkingv1.NetworkPolicyEgressRule{{
		To: []networkingv1.NetworkPolicyPeer{peer}, Ports: ports(corev1.ProtocolTCP, int32(port)),
	}}
}

// peerOf accepts IP addresses and name.namespace, alone or before .svc.
func peerOf(host string) (networkingv1.NetworkPolicyPeer, bool) {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(ip, ip.BitLen()).String()}}, true
	}
	parts := strings.Split(host, ".")
	if len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" {
		return networkingv1.NetworkPolicyPeer{}, false
	}
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: parts[1]}, // which no user can change
	}}, true
}

func ports(protocol corev1.Protocol, numbers ...int32) []networkingv1.NetworkPolicyPort {
	listed := make([]networkingv1.NetworkPolicyPort, 0, len(numbers))
	for _, number := range numbers {
		listed = append(listed, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))})
	}
	return listed
}
