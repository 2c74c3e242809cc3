package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// Cluster says how to reach the cluster that the pod runs in, or that KUBECONFIG names, and which types are read there.
func Cluster() (*rest.Config, *runtime.Scheme, error) {
	found, err := config.GetConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("find the cluster: %w", err)
	}
	scheme, err := NewScheme()
	if err != nil {
		return nil, nil, fmt.Errorf("register types: %w", err)
	}
	return found, scheme, nil
}
