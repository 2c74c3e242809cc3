package local

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Node is one node of the cluster.
type Node struct {
	host.Member

	Alone   bool      // the only node
	Dir     state.Dir // its own files
	Cluster state.Dir // the cluster's files; equal to Dir for the first node
	Cgroup  string    // of its pods
}

// nodesOf returns the nodes of a cluster of the given size.
func nodesOf(cluster state.Dir, count int) []Node {
	var all []Node
	for i, member := range host.Members(count) {
		one := Node{Member: member, Alone: count <= 1, Dir: cluster, Cluster: cluster, Cgroup: host.CgroupRoot}
		if i > 0 {
			one.Dir = state.Dir(cluster.Path("nodes", strconv.Itoa(i+1)))
			one.Cgroup = path.Join(host.CgroupRoot, member.Name)
		}
		all = append(all, one)
	}
	return all
}

// writeKubelet writes the kubelet's configuration and returns the program.
func writeKubelet(n Node, binary string) (host.Program, error) {
	dir := n.Dir
	files := map[string]string{
		dir.Config("kubelet.yaml"): kubeletConfig(n),
		dir.Config("resolv.conf"):  resolvConf(host.Nameservers()),
	}
	for path, content := range files {
		if err := state.Write(path, content); err != nil {
			return host.Program{}, err
		}
	}
	return host.Program{
		Name: "kubelet", Path: binary, Log: dir.Log("kubelet"),
		Args: []string{
			"--config=" + dir.Config("kubelet.yaml"), "--kubeconfig=" + n.Cluster.KubeconfigOf(host.KubeletOf(n.Member)),
			"--hostname-override=" + n.Name, "--node-ip=" + n.Address,
		},
	}, nil
}

// resolvConf returns the resolver configuration of pods that do not use the cluster's DNS, above all of CoreDNS.
func resolvConf(servers []string) string {
	var text strings.Builder
	for _, server := range servers {
		text.WriteString("nameserver " + server + "\n")
	}
	return text.String()
}

// kubeletConfig supports cgroup v1 and machines with swap, evicts no pods, and does not throttle the kubelet.
func kubeletConfig(n Node) string {
	dir, kubelet := n.Dir, host.KubeletOf(n.Member)
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
`, n.Address, n.Cluster.PKI("ca.crt"), n.Cluster.PKI(kubelet+".crt"), n.Cluster.PKI(kubelet+".key"), n.Cgroup, host.DNSAddress,
		dir.Config("resolv.conf"), dir.ContainerdSocket(), dir.Path("kubelet-plugins"))
}

// kubeProxy returns the program kube-proxy. It does not change the limits of connection tracking, which are the host's.
func kubeProxy(n Node, binary string) host.Program {
	return host.Program{
		Name: "kube-proxy", Path: binary, Log: n.Dir.Log("kube-proxy"),
		Args: []string{
			"--kubeconfig=" + n.Cluster.KubeconfigOf("proxy"), "--hostname-override=" + n.Name,
			"--proxy-mode=nftables", "--cluster-cidr=" + host.PodRange,
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
			"--oom-score-adj=0", "--nodeport-addresses=primary",
		},
	}
}

// PoliciesHealth returns the URL of the health check of the enforcement of NetworkPolicies.
func (n Node) PoliciesHealth() string { return "http://" + n.Address + ":20244/healthz" }

// policies returns the program that enforces NetworkPolicies.
func policies(n Node, binary string) host.Program {
	return host.Program{
		Name: "network-policies", Path: binary, Log: n.Dir.Log("network-policies"),
		Args: []string{"--kubeconfig=" + n.Cluster.KubeconfigOf(host.Policies), "--pods=" + n.Pods, "--health-address=" + n.Address + ":20244"},
	}
}

// ControlPlane are the user's options of the control plane.
type ControlPlane struct {
	// HPASync is the interval of the autoscalers. Kubernetes' default is 15 s.
	HPASync time.Duration
	// HPADownscaleStabilization is the stabilization window of scaling down. Kubernetes' default is 5 min.
	HPADownscaleStabilization time.Duration
}

// defaultControlPlane returns short times where they only delay tests, and Kubernetes' defaults elsewhere.
func defaultControlPlane() ControlPlane {
	return ControlPlane{HPASync: time.Second, HPADownscaleStabilization: 5 * time.Minute}
}

// scaleToZero allows autoscalers with minReplicas 0, as Kubernetes 1.37 does by itself.
const scaleToZero = "--feature-gates=HPAScaleToZero=true"

const etcdURL = "http://127.0.0.1:2379" // the loopback of the cluster's network namespace

// etcd stores its data on the disk without fsync: a machine that dies destroys the cluster anyway.
func etcd(dir state.Dir, binary string) host.Program {
	return host.Program{
		Name: "etcd", Path: binary, Log: dir.Log("etcd"),
		Args: []string{
			"--name=rouse", "--data-dir=" + dir.Path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=rouse=http://127.0.0.1:2380",
		},
	}
}

// apiServer listens on all addresses of its network namespace, which only this host and the pods reach.
func apiServer(dir state.Dir, binary string) host.Program {
	return host.Program{
		Name: "kube-apiserver", Path: binary, Log: dir.Log("kube-apiserver"),
		Args: []string{
			"--etcd-servers=" + etcdURL,
			"--advertise-address=" + host.NodeAddress, "--secure-port=6443",
			"--service-cluster-ip-range=" + host.ServiceRange,
			"--tls-cert-file=" + dir.PKI("apiserver.crt"), "--tls-private-key-file=" + dir.PKI("apiserver.key"),
			"--client-ca-file=" + dir.PKI("ca.crt"),
			"--kubelet-certificate-authority=" + dir.PKI("ca.crt"),
			"--kubelet-client-certificate=" + dir.PKI("apiserver-kubelet.crt"), "--kubelet-client-key=" + dir.PKI("apiserver-kubelet.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + dir.PKI("sa.pub"), "--service-account-signing-key-file=" + dir.PKI("sa.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true", "--profiling=false",
			"--proxy-client-cert-file=" + dir.PKI("front-proxy-client.crt"), "--proxy-client-key-file=" + dir.PKI("front-proxy-client.key"),
			"--requestheader-client-ca-file=" + dir.PKI("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-username-headers=X-Remote-User",
			"--enable-aggregator-routing=true", scaleToZero,
		},
	}
}

// controllerManager runs the controllers, including the autoscaler.
func controllerManager(dir state.Dir, binary string, options ControlPlane) host.Program {
	kubeconfig := dir.KubeconfigOf("controller-manager")
	return host.Program{
		Name: "kube-controller-manager", Path: binary, Log: dir.Log("kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false", "--use-service-account-credentials=true", "--profiling=false",
			"--service-account-private-key-file=" + dir.PKI("sa.key"), "--root-ca-file=" + dir.PKI("ca.crt"),
			"--bind-address=127.0.0.1", "--kube-api-qps=100", "--kube-api-burst=200", scaleToZero,
			"--horizontal-pod-autoscaler-sync-period=" + options.HPASync.String(),
			"--horizontal-pod-autoscaler-downscale-stabilization=" + options.HPADownscaleStabilization.String(),
		},
	}
}

// scheduler assigns pods to nodes.
func scheduler(dir state.Dir, binary string) host.Program {
	kubeconfig := dir.KubeconfigOf("scheduler")
	return host.Program{
		Name: "kube-scheduler", Path: binary, Log: dir.Log("kube-scheduler"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false", "--profiling=false", "--bind-address=127.0.0.1", "--kube-api-qps=100", "--kube-api-burst=200",
		},
	}
}
