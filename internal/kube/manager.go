package kube

import (
	"fmt"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/internal/flags"
)

// ManagerOptions configures a process of controllers.
type ManagerOptions struct {
	// MetricsAddress is that of /metrics, /healthz and /readyz.
	MetricsAddress string
	// LeaderElect lets one of several replicas work at a time.
	LeaderElect bool
	// LeaseNamespace and Lease name the lease of the leader. Without a namespace it is the pod's.
	LeaseNamespace, Lease string
}

// Flags declares the flags of all options but Lease.
func (o *ManagerOptions) Flags(fs *flags.Set) {
	fs.String(&o.MetricsAddress, "metrics-address", "address of /metrics, /healthz and /readyz")
	fs.Bool(&o.LeaderElect, "leader-elect", "let one of several replicas work at a time")
	fs.String(&o.LeaseNamespace, "leader-elect-namespace", "namespace of the lease; that of the pod when empty")
}

// NewManager returns a manager for the cluster that the pod runs in, or that KUBECONFIG names. Checks may be added until it
// starts.
func NewManager(o ManagerOptions, objects cache.Options, checks map[string]healthz.Checker) (ctrl.Manager, error) {
	rest, scheme, err := Cluster()
	if err != nil {
		return nil, err
	}
	health := &healthz.Handler{Checks: checks}
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme,
		Cache:  objects,
		Metrics: metricsserver.Options{
			BindAddress: o.MetricsAddress,
			ExtraHandlers: map[string]http.Handler{
				"/healthz": http.StripPrefix("/healthz", health),
				"/readyz":  http.StripPrefix("/readyz", health),
			},
		},
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              o.Lease,
		LeaderElectionNamespace:       o.LeaseNamespace,
		LeaderElectionReleaseOnCancel: true, // the process exits right after
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	return manager, nil
}

// NewClient returns a client without a cache for the cluster that the pod runs in, or that KUBECONFIG names.
func NewClient() (client.Client, error) {
	rest, scheme, err := Cluster()
	if err != nil {
		return nil, err
	}
	objects, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return objects, nil
}
