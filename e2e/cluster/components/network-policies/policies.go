package main

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

const (
	chain       = "NETWORK-POLICIES"
	queueNumber = 100
)

// rules returns iptables' arguments. Replies and further packets of allowed connections pass; the first packets are
// queued after Service addresses have been translated to pods, and where pods call the node itself. The node may call
// its pods, for probes.
func rules(pods string) []string {
	return []string{
		"-N " + chain,
		"-A " + chain + " -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
		fmt.Sprintf("-A %s -s %s -j NFQUEUE --queue-num %d", chain, pods, queueNumber),
		fmt.Sprintf("-A %s -d %s -j NFQUEUE --queue-num %d", chain, pods, queueNumber),
		"-I FORWARD -j " + chain,
		fmt.Sprintf("-I INPUT -s %s -j %s", pods, chain),
	}
}

func writeRules(ctx context.Context, pods string) error {
	for _, rule := range rules(pods) {
		arguments := append([]string{"-w"}, strings.Fields(rule)...)
		if out, err := exec.CommandContext(ctx, "iptables", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("iptables %s: %w: %s", rule, err, out)
		}
	}
	return nil
}

// snapshot is the state of the cluster at one moment.
type snapshot struct {
	pods       map[netip.Addr]*corev1.Pod
	namespaces map[string]map[string]string // labels
	policies   *matcher.Policy
}

func newSnapshot(pods []*corev1.Pod, namespaces []*corev1.Namespace, policies []*networkingv1.NetworkPolicy) *snapshot {
	made := &snapshot{
		pods: map[netip.Addr]*corev1.Pod{}, namespaces: map[string]map[string]string{},
		policies: matcher.BuildNetworkPolicies(false, policies),
	}
	for _, pod := range pods {
		address, err := netip.ParseAddr(pod.Status.PodIP)
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed // its address may already belong to another pod
		if err == nil && !over && !pod.Spec.HostNetwork {
			made.pods[address] = pod
		}
	}
	for _, namespace := range namespaces {
		made.namespaces[namespace.Name] = namespace.Labels
	}
	return made
}

// allows reports whether policies allow a connection, given its first packet. Policies do not apply to protocols other
// than TCP, UDP and SCTP.
func (s *snapshot) allows(first packet) bool {
	if first.protocol == "" {
		return true
	}
	return s.policies.IsTrafficAllowed(&matcher.Traffic{
		Source: s.peer(first.from), Destination: s.peer(first.to),
		ResolvedPort: first.port, ResolvedPortName: s.portName(first), Protocol: first.protocol,
	}).IsAllowed()
}

func (s *snapshot) peer(address netip.Addr) *matcher.TrafficPeer {
	found := &matcher.TrafficPeer{IP: address.String()}
	if pod := s.pods[address]; pod != nil {
		found.Internal = &matcher.InternalPeer{
			PodLabels: pod.Labels, Namespace: pod.Namespace, NamespaceLabels: s.namespaces[pod.Namespace],
		}
	}
	return found
}

// portName returns the name of the destination pod's port.
func (s *snapshot) portName(first packet) string {
	pod := s.pods[first.to]
	if pod == nil {
		return ""
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if int(port.ContainerPort) == first.port && (port.Protocol == first.protocol || port.Protocol == "" && first.protocol == corev1.ProtocolTCP) {
				return port.Name
			}
		}
	}
	return ""
}
