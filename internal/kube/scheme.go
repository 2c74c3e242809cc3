package kube

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha1 "github.com/rouse-run/rouse/api/serverless/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// NewScheme knows Kubernetes' own types, those of Gateway API, and ours. KEDA's are not needed: its
// objects are handled without Go types.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme),
		serverlessv1alpha1.AddToScheme(scheme),
		serverlessv1alpha2.AddToScheme(scheme),
		eventingv1alpha2.AddToScheme(scheme),
		gatewayv2.AddToScheme(scheme),
		operatorv1alpha1.AddToScheme(scheme),
		gatewayapi.Install(scheme),
	)
	return scheme, err
}
