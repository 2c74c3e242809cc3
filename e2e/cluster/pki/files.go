package pki

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Policies is the user and the kubeconfig of what enforces NetworkPolicies.
const Policies = "network-policies"

// KubeletOf is the name of the certificate and the kubeconfig of a node's kubelet.
func KubeletOf(member network.Member) string {
	if member.Name == network.NodeName {
		return "kubelet"
	}
	return "kubelet-" + member.Name
}

func asNode(member network.Member) Request {
	return Request{Name: "system:node:" + member.Name, Groups: []string{"system:nodes"}, Hosts: []string{member.Name, member.Address}}
}

// clients are the components that log in with a certificate, by the name of their kubeconfig.
func clients(members []network.Member) map[string]Request {
	all := map[string]Request{
		"admin":              {Name: "rouse-cluster-admin", Groups: []string{"system:masters"}},
		"controller-manager": {Name: "system:kube-controller-manager"},
		"scheduler":          {Name: "system:kube-scheduler"},
		"proxy":              {Name: "system:kube-proxy"},
	}
	for _, member := range members {
		all[KubeletOf(member)] = asNode(member)
	}
	if len(members) > 1 {
		all[Policies] = Request{Name: Policies}
	}
	return all
}

// Write makes all certificates, keys and kubeconfigs of a cluster with these nodes and writes them into its state directory.
func Write(dir state.Dir, members []network.Member) error {
	authority, err := NewAuthority("rouse-cluster")
	if err != nil {
		return err
	}
	front, err := NewAuthority("rouse-cluster-front-proxy")
	if err != nil {
		return err
	}
	public, private, err := KeyPair()
	if err != nil {
		return err
	}
	files := map[string]string{
		dir.PKI("ca.crt"):             authority.PEM(),
		dir.PKI("front-proxy-ca.crt"): front.PEM(),
		dir.PKI("sa.pub"):             public,
		dir.PKI("sa.key"):             private,
	}
	type pair struct {
		name    string
		by      *Authority
		request Request
	}
	pairs := []pair{
		{"apiserver", authority, Request{Name: "kube-apiserver", Hosts: []string{
			network.Node, network.APIService, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		}}},
		{"apiserver-kubelet", authority, Request{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}}},
		{"registry", authority, Request{Name: "registry", Hosts: []string{"registry.kube-system.svc.cluster.local", network.Registry}}},
		{"front-proxy-client", front, Request{Name: "front-proxy-client"}},
		{"keda", authority, Request{Name: "keda-operator", Hosts: []string{
			"keda-operator", "keda-operator.keda", "keda-operator.keda.svc", "keda-operator.keda.svc.cluster.local",
			"keda-metrics-apiserver", "keda-metrics-apiserver.keda", "keda-metrics-apiserver.keda.svc",
			"keda-metrics-apiserver.keda.svc.cluster.local",
		}}},
	}
	for _, member := range members {
		pairs = append(pairs, pair{KubeletOf(member), authority, asNode(member)})
	}
	for _, pair := range pairs {
		signed, err := pair.by.Sign(pair.request)
		if err != nil {
			return err
		}
		files[dir.PKI(pair.name+".crt")], files[dir.PKI(pair.name+".key")] = signed.Certificate, signed.Key
	}
	for name, request := range clients(members) {
		signed, err := authority.Sign(request)
		if err != nil {
			return err
		}
		files[dir.KubeconfigOf(name)] = Kubeconfig(network.APIServer, authority.PEM(), signed)
	}
	files[dir.Kubeconfig()] = files[dir.KubeconfigOf("admin")]
	return writeAll(files)
}

func writeAll(files map[string]string) error {
	for path, content := range files {
		if err := state.Write(path, content); err != nil {
			return err
		}
	}
	return nil
}

// Kubeconfig is a kubeconfig for one client, with everything inside it.
func Kubeconfig(server, authority string, client Pair) string {
	data := base64.StdEncoding.EncodeToString
	return strings.TrimLeft(fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters:
- name: rouse-cluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: rouse-cluster
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: rouse-cluster
  context:
    cluster: rouse-cluster
    user: rouse-cluster
current-context: rouse-cluster
`, server, data([]byte(authority)), data([]byte(client.Certificate)), data([]byte(client.Key))), "\n")
}
