package resources

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// The token that a Function shows where it publishes. The kubelet renews it when
// four fifths of its time are over.
const (
	tokenVolume  = "rouse-publisher-token"
	tokenDir     = "/var/run/secrets/rouse" //nolint:gosec // a directory
	tokenFile    = "token"
	tokenSeconds = 3600
)

// showsToken reports whether the pods of a Function get a token: the publisher asks for
// one, and no Secret of the Function takes its place. A Function that publishes at
// an address of its own gets none, because the server that answers there could use it.
func (s *Settings) showsToken(fn *v1alpha2.Function) bool {
	elsewhere := func(variable corev1.EnvVar) bool {
		return variable.Name == workload.EnvPublisher && variable.Value != s.PublisherAddress
	}
	inItsPlace := func(secret v1alpha2.SecretMount) bool {
		return strings.HasPrefix(path.Clean(secret.MountPath)+"/", tokenDir+"/")
	}
	return s.PublisherAudience != "" && !slices.ContainsFunc(fn.Spec.Env, elsewhere) && !slices.ContainsFunc(fn.Spec.SecretMounts, inItsPlace)
}

// withToken adds the token of the pod's ServiceAccount for one audience. Builds and
// what prepares a pod see nothing of it.
func withToken(
	audience string, vols []*corev1ac.VolumeApplyConfiguration, mounts []*corev1ac.VolumeMountApplyConfiguration,
) ([]*corev1ac.VolumeApplyConfiguration, []*corev1ac.VolumeMountApplyConfiguration) {
	token := corev1ac.ServiceAccountTokenProjection().WithAudience(audience).WithExpirationSeconds(tokenSeconds).WithPath(tokenFile)
	return append(vols, corev1ac.Volume().WithName(tokenVolume).WithProjected(corev1ac.ProjectedVolumeSource().
			WithSources(corev1ac.VolumeProjection().WithServiceAccountToken(token)).
			WithDefaultMode(0o444))), // the kubelet makes it 0640 for the group of the pod, which has one
		append(mounts, corev1ac.VolumeMount().WithName(tokenVolume).WithMountPath(tokenDir).WithReadOnly(true))
}
