package kube

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// NewScheme knows Kubernetes' own types and ours. KEDA's are not needed: its
// objects are handled without Go types.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme),
		serverlessv1alpha2.AddToScheme(scheme),
		eventingv1alpha2.AddToScheme(scheme),
	)
	return scheme, err
}
