package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestEveryProblemNamesItsField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*v1alpha2.Function)
		want   string
	}{
		"a name": {func(fn *v1alpha2.Function) { fn.Name = "a.b" }, "metadata.name"},
		"the variable that is wrong": {
			func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "ok"}, {Name: "a=b"}} }, "spec.env[1].name",
		},
		"dependencies": {
			func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Dependencies = "left-pad" }, "spec.source.inline.dependencies",
		},
		"a runtime": {func(fn *v1alpha2.Function) { fn.Spec.Runtime = v1alpha2.RuntimePython314 }, "spec.runtime"},
		"the second of two mounts": {
			func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "a", MountPath: "/x"}, {SecretName: "b", MountPath: "/x"}}
			}, "spec.secretMounts[1].mountPath",
		},
		"the label that is wrong": {
			func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"a": "b", "c": "d e"} }, "spec.labels[c]",
		},
		"a folder of a repository": {
			func(fn *v1alpha2.Function) {
				fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{URL: "https://example.com/r", BaseDir: ".."}}
			}, "spec.source.gitRepository.baseDir",
		},
		"a limit": {
			func(fn *v1alpha2.Function) {
				fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{
					Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
				}}
			}, "spec.resourceConfiguration.function.resources.limits[cpu]",
		},
		"bounds": {scaled(3, 2), "spec.scaleConfig.minReplicas"},
		"a tuning annotation": {
			func(fn *v1alpha2.Function) {
				scaled(1, 2)(fn)
				fn.Annotations = map[string]string{v1alpha2.AnnotationLagThreshold: "many"}
			}, "metadata.annotations[rouse.run/lag-threshold]",
		},
		"whether HTTP wakes it": {
			func(fn *v1alpha2.Function) {
				scaled(0, 2)(fn)
				fn.Annotations = map[string]string{v1alpha2.AnnotationHTTPWake: "false"}
			}, "metadata.annotations[rouse.run/http-wake]",
		},
		"a switch": {
			func(fn *v1alpha2.Function) {
				fn.Annotations = map[string]string{v1alpha2.AnnotationRestartOnChange: "yes"}
			}, "metadata.annotations[rouse.run/restart-on-change]",
		},
		"a contract": {
			func(fn *v1alpha2.Function) {
				fn.Annotations = map[string]string{v1alpha2.AnnotationRuntimeContract: "knative"}
			}, "metadata.annotations[rouse.run/runtime-contract]",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := newFunction(tc.change)
			problems := Function(fn, runs(fn))
			require.Len(t, problems, 1)
			require.Equal(t, tc.want, problems[0].Field)
		})
	}
}
