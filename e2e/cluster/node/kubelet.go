package node

import (
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// WriteKubelet writes the kubelet's configuration and returns how to start it.
func WriteKubelet(n Node, binary string) (process.Program, error) {
	dir := n.Dir
	files := map[string]string{
		dir.Config("kubelet.yaml"): kubeletConfig(n),
		dir.Config("resolv.conf"):  resolvConf(network.Nameservers()),
	}
	for path, content := range files {
		if err := state.Write(path, content); err != nil {
			return process.Program{}, err
		}
	}
	return process.Program{
		Name: "kubelet", Path: binary, Log: dir.Log("kubelet"),
		Args: []string{
			"--config=" + dir.Config("kubelet.yaml"), "--kubeconfig=" + n.Cluster.KubeconfigOf(pki.KubeletOf(n.Member)),
			"--hostname-override=" + n.Name, "--node-ip=" + n.Address,
		},
	}, nil
}

// resolvConf is what pods get that do not use the cluster's DNS, CoreDNS itself above all.
func resolvConf(servers []string) string {
	var text strings.Builder
	for _, server := range servers {
		text.WriteString("nameserver " + server + "\n")
	}
	return text.String()
}

// kubeletConfig runs on cgroup v1 and on machines with swap too, evicts nothing, and does not slow itself down.
func kubeletConfig(n Node) string {
	dir, kubelet := n.Dir, pki.KubeletOf(n.Member)
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]s}
authorization: {mode: Webhook}
tlsCertFile: %[3]s
tlsPrivateKeyFile: %[4]s
cgroupDriver: cgroupfs
cgroupRoot: %[5]s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {}
imageGCHighThresholdPercent: 100
clusterDNS: [%[6]s]
clusterDomain: cluster.local
resolvConf: %[7]s
containerRuntimeEndpoint: unix://%[8]s
podLogsDir: /var/log/pods
volumePluginDir: %[9]s
maxPods: 250
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 100
kubeAPIBurst: 200
oomScoreAdj: 0
shutdownGracePeriod: 0s
`, n.Address, n.Cluster.PKI("ca.crt"), n.Cluster.PKI(kubelet+".crt"), n.Cluster.PKI(kubelet+".key"), n.Cgroup, network.DNS,
		dir.Config("resolv.conf"), dir.ContainerdSocket(), dir.Path("kubelet-plugins"))
}
