package controlplane

import (
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Options are what a user may set.
type Options struct {
	// HPASync is how often the controller manager looks at the autoscalers. Kubernetes' default is 15 s.
	HPASync time.Duration
	// HPADownscaleStabilization is for how long the highest recommendation counts. Kubernetes' default is 5 min.
	HPADownscaleStabilization time.Duration
}

// DefaultOptions are quick where only the waiting time of a test is at stake and Kubernetes' own elsewhere.
func DefaultOptions() Options {
	return Options{HPASync: time.Second, HPADownscaleStabilization: 5 * time.Minute}
}

const etcdURL = "http://127.0.0.1:2379" // the loopback of the cluster's network namespace

// Etcd keeps its data on the disk but does not wait for the disk: a machine that dies takes the cluster along anyway.
func Etcd(dir state.Dir, binary string) process.Program {
	return process.Program{
		Name: "etcd", Path: binary, Log: dir.Log("etcd"),
		Args: []string{
			"--name=rouse", "--data-dir=" + dir.Path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=rouse=http://127.0.0.1:2380",
		},
	}
}

// APIServer listens on all addresses of its network namespace, which only this host and the pods reach.
func APIServer(dir state.Dir, binary string) process.Program {
	return process.Program{
		Name: "kube-apiserver", Path: binary, Log: dir.Log("kube-apiserver"),
		Args: []string{
			"--etcd-servers=" + etcdURL,
			"--advertise-address=" + network.Node, "--secure-port=6443",
			"--service-cluster-ip-range=" + network.Services,
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
			"--enable-aggregator-routing=true",
		},
	}
}

// ControllerManager runs the controllers, one of them the autoscaler.
func ControllerManager(dir state.Dir, binary string, options Options) process.Program {
	kubeconfig := dir.KubeconfigOf("controller-manager")
	return process.Program{
		Name: "kube-controller-manager", Path: binary, Log: dir.Log("kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false", "--use-service-account-credentials=true", "--profiling=false",
			"--service-account-private-key-file=" + dir.PKI("sa.key"), "--root-ca-file=" + dir.PKI("ca.crt"),
			"--bind-address=127.0.0.1", "--kube-api-qps=100", "--kube-api-burst=200",
			"--horizontal-pod-autoscaler-sync-period=" + options.HPASync.String(),
			"--horizontal-pod-autoscaler-downscale-stabilization=" + options.HPADownscaleStabilization.String(),
		},
	}
}

// Scheduler puts pods on the one node.
func Scheduler(dir state.Dir, binary string) process.Program {
	kubeconfig := dir.KubeconfigOf("scheduler")
	return process.Program{
		Name: "kube-scheduler", Path: binary, Log: dir.Log("kube-scheduler"),
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false", "--profiling=false", "--bind-address=127.0.0.1", "--kube-api-qps=100", "--kube-api-burst=200",
		},
	}
}
