package doctor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Certificate is a certificate by which a part of Rouse identifies itself.
type Certificate struct {
	Name    string // where it is kept
	Expires time.Time
	Problem string // why it cannot be read
}

// NodeClock is the last sign of life of a node, by the clock of the node.
type NodeClock struct {
	Name    string
	Renewed time.Time
}

// Policies are the NetworkPolicies of the user's namespace, and what they have to admit.
type Policies struct {
	Policies []networkingv1.NetworkPolicy
	// Rouse has the labels of Rouse's namespace, Functions those that all pods of Functions have.
	Rouse, Functions map[string]string
}

const (
	checkCertificates = "certificates"
	checkNodes        = "nodes"
	checkPolicies     = "networkpolicies"
)

const (
	// expiresSoon is how long before its end a certificate is a warning.
	expiresSoon = 14 * 24 * time.Hour
	// leaseTime is how long the lease of a live node lasts without renewal, and nodeAhead how far a node may be ahead.
	leaseTime = 40 * time.Second
	nodeAhead = 5 * time.Second
)

func (c Cluster) examineCertificates(e *examination) {
	if c.Certificates.Err != nil {
		e.unknown(checkCertificates, c.Certificates.Err)
		return
	}
	for _, certificate := range c.Certificates.Value {
		left := certificate.Expires.Sub(c.Now)
		remedy := "renew it: delete " + certificate.Name + " and run helm upgrade, or have its issuer renew it"
		switch {
		case certificate.Problem != "":
			e.warn(checkCertificates, "", "%s: %s", certificate.Name, certificate.Problem)
		case left <= 0:
			e.fail(checkCertificates, remedy, "%s expired on %s", certificate.Name, day(certificate.Expires))
		case left < expiresSoon:
			e.warn(checkCertificates, remedy, "%s expires in %s, on %s",
				certificate.Name, counted(int(left.Hours()/24), "day", "days"), day(certificate.Expires))
		default:
			e.ok(checkCertificates, "%s is valid until %s", certificate.Name, day(certificate.Expires))
		}
	}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// examineNodes compares the clocks of nodes with that of the API server.
func (c Cluster) examineNodes(e *examination) {
	now := c.Server.Value.Time
	switch {
	case c.Nodes.Err != nil:
		e.unknown(checkNodes, c.Nodes.Err)
		return
	case now.IsZero() || len(c.Nodes.Value) == 0:
		return
	}
	wrong := 0
	for _, node := range c.Nodes.Value {
		const remedy = "look at the node with kubectl describe node, and at its time service"
		switch ahead := node.Renewed.Sub(now).Round(time.Second); {
		case ahead > nodeAhead:
			wrong++
			e.warn(checkNodes, remedy, "the clock of node %s is %s ahead of the API server's", node.Name, ahead)
		case ahead < -leaseTime:
			wrong++
			e.warn(checkNodes, remedy, "node %s gave its last sign of life %s ago by its own clock: it is down, or its clock is late", node.Name, -ahead)
		}
	}
	if wrong == 0 {
		e.ok(checkNodes, "the clocks of %s agree with the API server's", counted(len(c.Nodes.Value), "node", "nodes"))
	}
}

const dnsPort = 53

// examinePolicies finds what the policies of the namespace leave out: policies add up, and a pod that none selects may do everything.
func (c Cluster) examinePolicies(e *examination) {
	if c.Policies.Err != nil {
		e.unknown(checkPolicies, c.Policies.Err)
		return
	}
	var unreachable, isolated []string
	for _, fn := range c.Functions.Value {
		reachable, resolves := c.Policies.Value.allow(fn.Name)
		if !reachable {
			unreachable = append(unreachable, fn.Name)
		}
		if !resolves {
			isolated = append(isolated, fn.Name)
		}
	}
	if len(unreachable) > 0 {
		e.fail(checkPolicies, fmt.Sprintf("add a policy to namespace %s that admits ingress from namespace %s", c.Namespace, c.RouseNamespace),
			"no NetworkPolicy admits Rouse to %s: events and requests do not arrive", listed(unreachable))
	}
	if len(isolated) > 0 {
		e.fail(checkPolicies, fmt.Sprintf("add a policy to namespace %s that allows egress to port 53", c.Namespace),
			"no NetworkPolicy lets %s ask DNS: it emits nothing and calls nobody", listed(isolated))
	}
	if len(unreachable)+len(isolated) == 0 {
		e.ok(checkPolicies, "%s of namespace %s: none keeps Rouse from Functions, or Functions from DNS",
			counted(len(c.Policies.Value.Policies), "NetworkPolicy", "NetworkPolicies"), c.Namespace)
	}
}

// allow reports whether the policies admit Rouse to the pods of a Function, and the pods to DNS.
func (p Policies) allow(function string) (reachable, resolves bool) {
	pods := maps.Clone(p.Functions)
	pods[v1alpha2.LabelFunctionName] = function
	in, out := false, false
	for i := range p.Policies {
		spec := &p.Policies[i].Spec
		if !selects(&spec.PodSelector, pods) {
			continue
		}
		if isType(spec, networkingv1.PolicyTypeIngress) {
			in = true
			reachable = reachable || admits(spec.Ingress, p.Rouse)
		}
		if isType(spec, networkingv1.PolicyTypeEgress) {
			out = true
			resolves = resolves || opensDNS(spec.Egress)
		}
	}
	return reachable || !in, resolves || !out
}

// selects reports whether a selector matches the labels.
func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}

// isType reports whether a policy restricts a direction; without types it restricts ingress, and egress where it has rules for it.
func isType(spec *networkingv1.NetworkPolicySpec, direction networkingv1.PolicyType) bool {
	if slices.Contains(spec.PolicyTypes, direction) {
		return true
	}
	return len(spec.PolicyTypes) == 0 && (direction == networkingv1.PolicyTypeIngress || len(spec.Egress) > 0)
}

// admits reports whether a rule admits some pod of the namespace with the labels. Blocks of addresses may do so, and are not judged.
func admits(rules []networkingv1.NetworkPolicyIngressRule, namespace map[string]string) bool {
	for _, rule := range rules {
		if len(rule.From) == 0 {
			return true
		}
		for _, peer := range rule.From {
			if peer.IPBlock != nil || peer.NamespaceSelector != nil && selects(peer.NamespaceSelector, namespace) {
				return true
			}
		}
	}
	return false
}

// opensDNS reports whether a rule opens what may be the port of DNS: 53, or any port of UDP, where an installation has another.
func opensDNS(rules []networkingv1.NetworkPolicyEgressRule) bool {
	for _, rule := range rules {
		if len(rule.Ports) == 0 {
			return true
		}
		for _, port := range rule.Ports {
			udp := port.Protocol != nil && *port.Protocol == corev1.ProtocolUDP
			if udp || port.Port != nil && port.Port.IntValue() == dnsPort {
				return true
			}
		}
	}
	return false
}
