package function

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/controller/function/resources"
)

// networkRules is Options.Network as a flag.
type networkRules struct{ rules **resources.NetworkRules }

// String implements pflag.Value.
func (n *networkRules) String() string {
	if n.rules == nil || *n.rules == nil {
		return ""
	}
	text, _ := json.Marshal(*n.rules) // it has nothing that JSON cannot say
	return string(text)
}

// Type implements pflag.Value.
func (n *networkRules) Type() string { return "json" }

// Set implements pflag.Value. A misspelt member is an error, because a peer
// without it may be everyone.
func (n *networkRules) Set(text string) error {
	if text == "" {
		*n.rules = nil
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	read := &resources.NetworkRules{}
	if err := decoder.Decode(read); err != nil {
		return err
	}
	if err := checkNetworkRules(read); err != nil {
		return err
	}
	*n.rules = read
	return nil
}

// checkNetworkRules names what cannot be meant, before every Function is refused
// for it.
func checkNetworkRules(rules *resources.NetworkRules) error {
	problems := []error{
		checkOwnPods("callers", rules.Callers), checkOwnPods("publisher.to", rules.Publisher.To),
		checkPorts("publisher.ports", rules.Publisher.Ports), checkPorts("dnsPorts", rules.DNSPorts),
		checkPeers("from", rules.From), checkPeers("dnsTo", rules.DNSTo),
	}
	for i, rule := range rules.Egress {
		problems = append(problems, checkPeers(fmt.Sprintf("egress[%d].to", i), rule.To))
	}
	return errors.Join(problems...)
}

// checkOwnPods asks for namespace and pods together: with the labels of pods alone
// every tenant could make such a pod.
func checkOwnPods(place string, peers []networkingv1.NetworkPolicyPeer) error {
	if len(peers) == 0 {
		return fmt.Errorf("%s: name the installation's pods", place)
	}
	for i, peer := range peers {
		if isEmpty(peer.NamespaceSelector) || isEmpty(peer.PodSelector) {
			return fmt.Errorf("%s[%d]: needs a namespaceSelector and a podSelector that select something", place, i)
		}
	}
	return checkPeers(place, peers)
}

func isEmpty(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

func checkPorts(place string, ports []int32) error {
	if len(ports) == 0 {
		return fmt.Errorf("%s: name one", place)
	}
	for _, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%s: %d is no port", place, port)
		}
	}
	return nil
}

func checkPeers(place string, peers []networkingv1.NetworkPolicyPeer) error {
	var problems []error
	for i, peer := range peers {
		if err := checkPeer(peer); err != nil {
			problems = append(problems, fmt.Errorf("%s[%d]: %w", place, i, err))
		}
	}
	return errors.Join(problems...)
}

func checkPeer(peer networkingv1.NetworkPolicyPeer) error {
	selects := peer.NamespaceSelector != nil || peer.PodSelector != nil
	if selects == (peer.IPBlock != nil) {
		return errors.New("needs either an ipBlock or selectors")
	}
	if peer.IPBlock != nil {
		if _, err := netip.ParsePrefix(peer.IPBlock.CIDR); err != nil {
			return fmt.Errorf("ipBlock.cidr %q is no network such as 10.0.0.0/8", peer.IPBlock.CIDR)
		}
		return nil
	}
	_, namespaces := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
	_, pods := metav1.LabelSelectorAsSelector(peer.PodSelector)
	return errors.Join(namespaces, pods)
}
