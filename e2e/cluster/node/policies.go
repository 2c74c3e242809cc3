package node

import (
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/process"
)

// PoliciesHealth is where what enforces NetworkPolicies on a node says whether it does.
func (n Node) PoliciesHealth() string { return "http://" + n.Address + ":20244/healthz" }

// Policies says how to start what enforces NetworkPolicies.
func Policies(n Node, binary string) process.Program {
	return process.Program{
		Name: "network-policies", Path: binary, Log: n.Dir.Log("network-policies"),
		Args: []string{"--kubeconfig=" + n.Cluster.KubeconfigOf(pki.Policies), "--pods=" + n.Pods, "--health-address=" + n.Address + ":20244"},
	}
}
