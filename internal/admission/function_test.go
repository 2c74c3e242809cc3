package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestFunction(t *testing.T) {
	t.Parallel()
	own := func(requests, limits corev1.ResourceList) func(*v1alpha2.Function) {
		return func(fn *v1alpha2.Function) {
			fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Function: &v1alpha2.ResourceRequirements{
				Resources: &corev1.ResourceRequirements{Requests: requests, Limits: limits},
			}}
		}
	}
	list := func(cpu, memory string) corev1.ResourceList {
		built := corev1.ResourceList{}
		if cpu != "" {
			built[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			built[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return built
	}
	repository := func(url string) func(*v1alpha2.Function) {
		return func(fn *v1alpha2.Function) {
			fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{URL: url}}
		}
	}
	tests := map[string]struct {
		change func(*v1alpha2.Function)
		want   string
	}{
		"a plain Function is fine":       {change: func(*v1alpha2.Function) {}},
		"a limit on memory alone is one": {change: own(list("100m", ""), list("", "64Mi"))},
		"a repository over SSH is fine":  {change: repository("git@github.com:org/repo.git")},
		"a repository over HTTP is fine": {change: repository("https://example.com/repo.git")},
		"a name with dots is no name of a Service": {
			change: func(fn *v1alpha2.Function) { fn.Name = "a.b" },
			want:   `metadata.name: "a.b" cannot be the name of a Service. Create the Function under a name of at most 63`,
		},
		"a long name is no name of a Service": {
			change: func(fn *v1alpha2.Function) { fn.Name = strings.Repeat("x", 64) }, want: "cannot be the name of a Service",
		},
		"only the first wrong variable is named": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "ok"}, {Name: "a=b"}, {Name: "c=d"}} },
			want:   "spec.env: a=b. Err: ",
		},
		"dependencies of Node.js must look like JSON": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Dependencies = "left-pad" },
			want:   "invalid source.inline.dependencies value: deps should start with '{' and end with '}'",
		},
		"a runtime must have an image": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Runtime = v1alpha2.RuntimePython314 },
			want:   "invalid runtime value: cannot find runtime: python314",
		},
		"an unknown runtime is named twice": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Runtime = "cobol" },
			want: "invalid source.inline.dependencies value: cannot find runtime: cobol. " +
				"invalid runtime value: cannot find runtime: cobol",
		},
		"a Secret can be mounted once": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "a", MountPath: "/a"}, {SecretName: "a", MountPath: "/b"}}
			},
			want: "invalid spec.secretMounts: [secretNames should be unique]",
		},
		"a path takes one Secret": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "a", MountPath: "/x"}, {SecretName: "b", MountPath: "/x"}}
			},
			want: "invalid spec.secretMounts: [mountPaths should be unique]",
		},
		"the name of a Secret must be one": {
			change: func(fn *v1alpha2.Function) { fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "A"}} },
			want:   "invalid spec.secretMounts: [a lowercase RFC 1123 subdomain",
		},
		"labels must be labels": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"a": "b c"} },
			want:   `spec.labels: Invalid value: "b c"`,
		},
		"annotations must be annotations": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{"a b": ""} },
			want:   `spec.annotations: Invalid value: "a b"`,
		},
		"a repository needs a URL": {
			change: repository("nowhere"), want: `source.gitRepository.URL: parse "nowhere": invalid URI for request`,
		},
		"a GitRepository of v1alpha1 that is missing is named, with what to do": {
			change: func(fn *v1alpha2.Function) {
				repository("")(fn)
				fn.Annotations = map[string]string{v1alpha1.AnnotationGitRepository: "code"}
			},
			want: "source.gitRepository.URL: it is empty, as GitRepository shop/code is missing or has none: create it with spec.url where v1alpha1 is served, or write the URL into the Function",
		},
		"resources have a minimum": {
			change: own(list("1m", "1Mi"), list("5m", "5Mi")),
			want: "Function limits cpu(5m) should be higher than minimal value (10m). " +
				"Function request cpu(1m) should be higher than minimal value (10m). " +
				"Function limits memory(5Mi) should be higher than minimal value (16Mi). " +
				"Function request memory(1Mi) should be higher than minimal value (16Mi)",
		},
		"a request is at most the limit": {
			change: own(list("200m", "64Mi"), list("100m", "32Mi")),
			want: "Function limits cpu(100m) should be higher than requests cpu(200m). " +
				"Function limits memory(32Mi) should be higher than requests memory(64Mi)",
		},
		"the bounds of replicas have an order": {change: scaled(3, 2), want: "minReplicas should be less than or equal maxReplicas"},
		"an image follows Kyma's contract only where Kyma has such a runtime": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Runtime = v1alpha2.RuntimeGo126
				fn.Annotations = map[string]string{v1alpha2.AnnotationRuntimeContract: v1alpha2.RuntimeContractKyma}
			},
			want: "annotation rouse.run/runtime-contract: images of Go follow no contract of Kyma: take it away, or set it to rouse",
		},
		"a go.mod that is none says where": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Runtime, fn.Spec.Source.Inline.Dependencies = v1alpha2.RuntimeGo126, "module shop\n\nuuid v1.6.0\n"
			},
			want: `invalid source.inline.dependencies value: line 3: "uuid" is no directive`,
		},
		"a tuning annotation is named": {
			change: func(fn *v1alpha2.Function) {
				scaled(0, 1)(fn)
				fn.Annotations = map[string]string{v1alpha2.AnnotationLagThreshold: "many"}
			},
			want: `annotation rouse.run/lag-threshold: invalid value "many"`,
		},
		"a directory stays within the repository": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{URL: "https://example.com/r", BaseDir: "a/../../etc"}}
			},
			want: `source.gitRepository.baseDir: "a/../../etc" must be a path within the repository, without '..'`,
		},
		"two dots in a name lead nowhere": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{URL: "https://example.com/r", BaseDir: "/a..b/..c"}}
			},
		},
		"a build's request is at most its limit": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Build: &v1alpha2.ResourceRequirements{
					Resources: &corev1.ResourceRequirements{Requests: list("2", "1Gi"), Limits: list("1", "2Gi")},
				}}
			},
			want: "Build limits cpu(1) should be higher than requests cpu(2)",
		},
		"a build with few resources is accepted": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Build: &v1alpha2.ResourceRequirements{
					Resources: &corev1.ResourceRequirements{Limits: list("50m", "50Mi")},
				}}
			},
		},
		"a switch is on or off": {
			change: func(fn *v1alpha2.Function) {
				fn.Annotations = map[string]string{v1alpha2.AnnotationRestartOnChange: "yes"}
			},
			want: `annotation rouse.run/restart-on-change: invalid value "yes": must be true or false`,
		},
		"a tuning annotation without a scaleConfig does not matter": {
			change: func(fn *v1alpha2.Function) {
				fn.Annotations = map[string]string{v1alpha2.AnnotationLagThreshold: "many"}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := newFunction(tc.change)
			err := Function(fn, runs(fn)).Err()
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	require.Empty(t, FunctionWarnings(newFunction()))
	fn := newFunction(func(fn *v1alpha2.Function) {
		fn.Spec.Runtime = v1alpha2.RuntimeNodeJS20
		fn.Spec.ResourceConfiguration = &v1alpha2.ResourceConfiguration{Build: &v1alpha2.ResourceRequirements{
			Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
			},
		}}
	})
	require.Equal(t, Problems{
		{Field: "spec.runtime", Text: "runtime nodejs20 is deprecated and will be removed in the future"},
		{
			Field: "spec.resourceConfiguration.build.resources.limits[cpu]",
			Text:  "Build limits cpu(100m) should be higher than minimal value (200m)",
		},
		{
			Field: "spec.resourceConfiguration.build.resources.requests[memory]",
			Text:  "Build request memory(100Mi) should be higher than minimal value (200Mi)",
		},
	}, FunctionWarnings(fn))
}
