package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pod(namespace, name, address string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
		Status:     corev1.PodStatus{PodIP: address},
	}
}

func TestPoliciesDecideByPodsNamespacesAndNamesOfPorts(t *testing.T) {
	t.Parallel()
	http := intstr.FromString("http")
	ended := pod("shop", "ended", "10.0.0.4")
	ended.Status.Phase = corev1.PodSucceeded
	known := newSnapshot(
		[]*corev1.Pod{pod("shop", "orders", "10.0.0.1"), pod("shop", "caller", "10.0.0.2"), pod("other", "caller", "10.0.0.3"), ended},
		[]*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}},
		[]*networkingv1.NetworkPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "orders"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{
					Ports: []networkingv1.NetworkPolicyPort{{Port: &http}},
					From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "caller"}}}},
				}},
			},
		}})
	for name, tc := range map[string]struct {
		from, to string
		protocol corev1.Protocol
		port     int
		want     bool
	}{
		"a peer at the named port":                {"10.0.0.2", "10.0.0.1", corev1.ProtocolTCP, 8080, true},
		"a peer at another port":                  {"10.0.0.2", "10.0.0.1", corev1.ProtocolTCP, 9090, false},
		"another protocol":                        {"10.0.0.2", "10.0.0.1", corev1.ProtocolUDP, 8080, false},
		"the same labels in another namespace":    {"10.0.0.3", "10.0.0.1", corev1.ProtocolTCP, 8080, false},
		"a peer outside of the cluster":           {"192.0.2.1", "10.0.0.1", corev1.ProtocolTCP, 8080, false},
		"from a pod without allowed destinations": {"10.0.0.1", "10.0.0.2", corev1.ProtocolTCP, 8080, false},
		"a protocol without policies":             {"10.0.0.1", "10.0.0.1", "", 0, true},
		"between pods without policies":           {"10.0.0.3", "10.0.0.2", corev1.ProtocolTCP, 1, true},
		"the former address of an ended pod":      {"10.0.0.4", "10.0.0.2", corev1.ProtocolTCP, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, known.allows(packet{
				from: netip.MustParseAddr(tc.from), to: netip.MustParseAddr(tc.to), protocol: tc.protocol, port: tc.port,
			}))
		})
	}
}

func TestHeadOfAPacketIsParsed(t *testing.T) {
	t.Parallel()
	head := []byte{
		0x46, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 10, 201, 2, 7, 10, 201, 3, 9, // 24 bytes long
		0, 0, 0, 0, 0xc0, 0x01, 0x1f, 0x90,
	}
	read, err := parse(head)
	require.NoError(t, err)
	require.Equal(t, packet{
		from: netip.MustParseAddr("10.201.2.7"), to: netip.MustParseAddr("10.201.3.9"), protocol: corev1.ProtocolTCP, port: 8080,
	}, read)
	for end := range head {
		_, err := parse(head[:end])
		require.ErrorIs(t, err, errNoPacket, "cut off after %d bytes", end)
	}
	head[9] = 1
	read, err = parse(head)
	require.NoError(t, err)
	require.Empty(t, read.protocol)
	head[0] = 0x60
	_, err = parse(head)
	require.ErrorIs(t, err, errNoPacket)
}
