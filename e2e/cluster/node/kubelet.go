package node

import (
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// WriteKubelet writes the kubelet's configuration and returns how to start it.
func WriteKubelet(dir state.Dir, binary string) (process.Program, error) {
	files := map[string]string{
		dir.Config("kubelet.yaml"): kubeletConfig(dir),
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
			"--config=" + dir.Config("kubelet.yaml"), "--kubeconfig=" + dir.KubeconfigOf("kubelet"),
			"--hostname-override=" + pki.NodeName, "--node-ip=" + network.Node,
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
func kubeletConfig(dir state.Dir) string {
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
`, network.Node, dir.PKI("ca.crt"), dir.PKI("kubelet.crt"), dir.PKI("kubelet.key"), host.CgroupRoot, network.DNS,
		dir.Config("resolv.conf"), dir.ContainerdSocket(), dir.Path("kubelet-plugins"))
}
