package function

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/controller/function/resources"
)

// oldReplicas are the ready pods of an earlier template. They serve for as long as
// those of the present one do not start.
type oldReplicas struct {
	ready   int
	version string
	newest  time.Time
}

func (i *oldReplicas) add(pod *corev1.Pod) {
	i.ready++
	if created := pod.CreationTimestamp.Time; i.version == "" || created.After(i.newest) {
		i.version, i.newest = pod.Annotations[resources.AnnotationVersion], created
	}
}

// withOldReplicas adds to the reason why the pods of the present template do not
// start that older replicas keep serving, if they do.
func withOldReplicas(s *scope, detail string, others oldReplicas) string {
	if others.ready == 0 || detail == "" {
		return detail
	}
	count := fmt.Sprintf("%d of %d replicas", others.ready, ptr.Deref(s.deployment.Spec.Replicas, 1))
	if others.version == s.code.Version() || others.version == "" {
		return fmt.Sprintf("the changed pods do not start: %s; those from before the change keep serving with %s", detail, count)
	}
	return fmt.Sprintf("the new version does not start: %s; version %s keeps serving with %s", detail, others.version, count)
}
