package function

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/workload"
)

// scope is everything that one reconciliation learns about a Function. Phases fill it,
// and the status is computed from it.
type scope struct {
	fn       *v1alpha2.Function
	settings *resources.Settings
	// settled is false while the settings are not known that pods may run with.
	settled bool
	// former are addresses of earlier settings.
	former []string
	now    time.Time

	// What is there. Nil means that there is none.
	deployment   *appsv1.Deployment
	service      metav1.Object
	hpa          metav1.Object
	scaledObject *resources.LiveScaledObject
	pods         []corev1.Pod
	// buildPods are those of the Function's builds.
	buildPods []corev1.Pod
	// missingSecrets are those of spec.secretMounts that do not exist.
	missingSecrets []string
	// missingBindings are Secrets that do not exist although they are bound to the Function.
	missingBindings []string
	// conflictingAutoscalers are those of users beside the Function's own.
	conflictingAutoscalers []string
	// keda reports whether the cluster knows ScaledObjects.
	keda bool

	// What was decided.
	//
	// plan is of the image that the code needs, nil when it needs none. It is not
	// complete before the registry and the commit are known.
	plan *buildplan.Plan
	// registry is where the images are kept, nil when there is none, and tenant
	// whose they are.
	registry *images.Location
	tenant   registry.Tenant
	// source says why it is not known what the source is now.
	source conditionUpdate
	// planned is true when it was found out how the code gets to the pods, with
	// image, which is ready to run, or with build, which says why there is none.
	planned bool
	image   *v1alpha2.BuildStatus
	build   conditionUpdate
	// code is what the pods run. Without an image it is not known yet, and the
	// Deployment stays as it is.
	code resources.Code
	// rolledBack is true when code is an earlier version and own the spec's.
	rolledBack bool
	own        resources.Code
	tuning     workload.Tuning
	// configuration is a hash of the ConfigMaps and Secrets that the pods follow.
	configuration string
	// template is the hash of the pod template that the pods should have.
	template string

	// What was done.
	change change
	// postponed is true when the pods stay as they are although the settings have changed: the Function's turn comes later.
	postponed bool
	// applied is true when Deployment and Service are as they should be.
	applied bool
	// err is what ended the phases.
	err error
	// stalled are the conditions that only a change by somebody ends.
	stalled map[string]bool
}

// change is what a reconciliation did to the Deployment.
type change int

const (
	unchanged change = iota
	created
	updated
)

func (c change) String() string { return [...]string{"none", "created", "updated"}[c] }

// ownVersion is the version of the spec's own code, empty as long as it has no
// image.
func (s *scope) ownVersion() string {
	own := s.code
	if s.rolledBack {
		own = s.own
	}
	if own.Image == "" {
		return ""
	}
	return own.Version()
}

// held reports whether the Deployment stays as it is, because there is nothing new
// to run yet.
func (s *scope) held() bool { return s.code.Image == "" }

// httpCounted reports whether pods can be asked for their HTTP load: for those of Kyma's contract every path leads to
// the handler. It stays as it is while those that run do.
func (s *scope) httpCounted() bool {
	if s.held() && s.scaledObject != nil {
		return resources.IsHTTPCounted(s.scaledObject)
	}
	return !s.code.Kyma
}

// scaled reports whether an autoscaler decides about the number of pods.
func (s *scope) scaled() bool { return s.fn.Spec.ScaleConfig != nil }

// summary is what a line of the log says of the reconciliation. It has nothing of the source or of the environment.
func (s *scope) summary() []any {
	said := []any{"held", s.held(), "postponed", s.postponed, "change", s.change.String()}
	if s.deployment != nil {
		said = append(said, "replicas", s.deployment.Status.Replicas, "template", s.template)
	}
	for _, condition := range s.fn.Status.Conditions {
		said = append(said, condition.Type, string(condition.Status)+" "+condition.Reason)
	}
	if s.err != nil {
		said = append(said, "reason", s.err.Error())
	}
	return said
}

// failure is an error that a condition explains to the user.
type failure struct {
	condition, reason, message string
	err                        error
}

// Error is the message that the user sees.
func (f *failure) Error() string { return f.message }

// Unwrap returns the cause, if there is one.
func (f *failure) Unwrap() error { return f.err }
