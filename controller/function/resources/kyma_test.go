package resources

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/applyconfig"
	"github.com/rouse-run/rouse/internal/workload"
)

func TestWhichContractAnImageFollows(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		override, annotation, runtime string
		want                          bool
	}{
		"the runtime's own image":                             {},
		"the annotation means nothing for that":               {annotation: "kyma"},
		"another image is Kyma's":                             {override: "example.com/own:1", want: true},
		"so is one of a repository with a like name":          {override: "registry.example.com/rouse-runtime-nodejs22-gcc:1", want: true},
		"an image of a runtime's repository is ours":          {override: "registry.example.com/rouse-runtime-nodejs22:0"},
		"also by digest":                                      {override: "registry.example.com/rouse-runtime-nodejs22@sha256:1"},
		"also for another runtime":                            {override: "registry.example.com/rouse-runtime-python312"},
		"an image made from ours says so":                     {override: "example.com/own:1", annotation: "rouse"},
		"one of ours may be run by Kyma's contract":           {override: "registry.example.com/rouse-runtime-nodejs22:0", annotation: "kyma", want: true},
		"a port of the registry is no tag of another":         {override: "registry.example.com:5000/rouse-runtime-nodejs22", want: true},
		"where Kyma has no such runtime it is none of Kyma's": {override: "example.com/own:1", annotation: "kyma", runtime: "go126"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := function()
			fn.Spec.RuntimeImageOverride = tc.override
			if tc.runtime != "" {
				fn.Spec.Runtime = v1alpha2.Runtime(tc.runtime)
			}
			if tc.annotation != "" {
				fn.Annotations = map[string]string{v1alpha2.AnnotationRuntimeContract: tc.annotation}
			}
			require.Equal(t, tc.want, FollowsKyma(fn, settings()))
		})
	}
}

func TestPodsOfKymasContractFitTheRestrictedLevel(t *testing.T) {
	t.Parallel()
	for _, runtime := range []v1alpha2.Runtime{v1alpha2.RuntimeNodeJS22, v1alpha2.RuntimePython312} {
		fn := function(kyma)
		config, err := Deployment(fn, settings(), Workload{Code: Code{Image: "kyma:1", Runtime: runtime, Kyma: true, Inline: &workload.Inline{}}})
		require.NoError(t, err)
		deployment, err := applyconfig.Of[appsv1.Deployment](config)
		require.NoError(t, err)
		pod := deployment.Spec.Template.Spec
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		require.Len(t, pod.Containers, 1)
		security := pod.Containers[0].SecurityContext
		require.True(t, ptr.Deref(security.RunAsNonRoot, false))
		require.True(t, ptr.Deref(security.ReadOnlyRootFilesystem, false))
		require.False(t, ptr.Deref(security.AllowPrivilegeEscalation, true))
		require.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)
	}
}
