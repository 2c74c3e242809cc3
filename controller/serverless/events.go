package serverless

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/kube"
)

// maxEventNote is the longest text that an event may have.
const maxEventNote = 1024

type notice struct{ kind, reason, note string }

// notices are the events that a change of the status brings.
func notices(before, after *operatorv1alpha1.ServerlessStatus) []notice {
	var all []notice
	for _, value := range []struct{ name, old, now string }{
		{"Eventing endpoint", before.EventingEndpoint, after.EventingEndpoint},
		{"Tracing endpoint", before.TracingEndpoint, after.TracingEndpoint},
		{"Function requeue duration", before.FunctionRequeueDuration, after.FunctionRequeueDuration},
		{"Duration of health check", before.HealthzLivenessTimeout, after.HealthzLivenessTimeout},
		{"Default runtime pod preset", before.DefaultRuntimePodPreset, after.DefaultRuntimePodPreset},
		{"Log level", before.LogLevel, after.LogLevel},
		{"Log format", before.LogFormat, after.LogFormat},
		{"NetworkPolicies enabled", before.NetworkPoliciesEnabled, after.NetworkPoliciesEnabled},
	} {
		if value.old != value.now {
			all = append(all, notice{
				corev1.EventTypeNormal, operatorv1alpha1.ReasonConfiguration,
				fmt.Sprintf("%s set from '%s' to '%s'", value.name, value.old, value.now),
			})
		}
	}
	for _, condition := range after.Conditions {
		if kube.IsSummary(condition.Type) {
			continue // it only repeats others
		}
		if known := meta.FindStatusCondition(before.Conditions, condition.Type); known == nil || known.Status != condition.Status ||
			known.Reason != condition.Reason || known.Message != condition.Message {
			all = append(all, notice{kindOf(&condition), condition.Reason, condition.Message})
		}
	}
	return all
}

func kindOf(condition *metav1.Condition) string {
	if condition.Status == metav1.ConditionFalse || strings.HasPrefix(condition.Message, "Warning") {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// announce sends them.
func (r *Reconciler) announce(before, after *operatorv1alpha1.Serverless) {
	for _, n := range notices(&before.Status, &after.Status) {
		r.recorder.Eventf(after, nil, n.kind, n.reason, action(n.note), "%s", kube.Truncate(n.note, maxEventNote))
	}
}

// action sets Events apart: the recorder counts those which differ in their note alone as one, and shows the first note.
func action(note string) string {
	sum := sha256.Sum256([]byte(note))
	return "Reconcile-" + hex.EncodeToString(sum[:4])
}
