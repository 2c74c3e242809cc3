package manifest

import (
	corev1 "k8s.io/api/core/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// Set is what a folder asks for, without the objects that have a problem.
type Set struct {
	Functions     []Function
	Subscriptions []Subscription
	APIRules      []APIRule
	ConfigMaps    []*corev1.ConfigMap
	Secrets       []*corev1.Secret
	// Files are all that were read, also those with problems.
	Files []string
}

// Function is a Function with the CRD's defaults.
type Function struct {
	*serverlessv1alpha2.Function
	// At is where it stands.
	At Position
	// Source is the first line of the inline source, so that line n of the handler is Source.Line+n-1. It is
	// zero when the lines of the source are no lines of a file.
	Source Position
}

// Subscription is a Subscription with the CRD's defaults, and what it means.
type Subscription struct {
	*eventingv1alpha2.Subscription
	// At is where it stands.
	At Position
	// Route is what it means to the data plane.
	Route routing.Route
}
