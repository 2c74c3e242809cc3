package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// functionUser is the user and the group that Functions run as.
const functionUser = 1000

// ContainerSecurityContext is the user's, with the gaps filled so that it fits
// the restricted Pod Security level. The root file system stays writable unless
// the user says otherwise: a volume for /tmp would slow every start. With Kyma's
// contract, whose pods have volumes anyway, it is read-only.
func ContainerSecurityContext(fn *v1alpha2.Function, kyma bool) *corev1.SecurityContext {
	security := fn.Spec.ContainerSecurityContext.DeepCopy()
	if security == nil {
		security = &corev1.SecurityContext{}
	}
	if security.Privileged == nil {
		security.Privileged = new(false)
	}
	if security.AllowPrivilegeEscalation == nil && !*security.Privileged {
		security.AllowPrivilegeEscalation = new(false) // with privileged, Kubernetes refuses it
	}
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	if security.RunAsNonRoot == nil {
		security.RunAsNonRoot = new(true)
	}
	if security.ReadOnlyRootFilesystem == nil && kyma {
		security.ReadOnlyRootFilesystem = new(true)
	}
	return security
}

// PodSecurityContext is the user's, with the gaps filled.
func PodSecurityContext(fn *v1alpha2.Function) *corev1.PodSecurityContext {
	security := fn.Spec.PodSecurityContext.DeepCopy()
	if security == nil {
		security = &corev1.PodSecurityContext{}
	}
	if security.RunAsUser == nil {
		security.RunAsUser = ptr.To[int64](functionUser)
	}
	if security.RunAsGroup == nil {
		security.RunAsGroup = ptr.To[int64](functionUser)
	}
	if security.FSGroup == nil {
		security.FSGroup = ptr.To[int64](functionUser)
	}
	if security.SupplementalGroups == nil {
		security.SupplementalGroups = []int64{functionUser}
	}
	if security.SeccompProfile == nil {
		security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return security
}
