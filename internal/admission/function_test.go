package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// newFunction returns a small valid Function.
func newFunction(changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: "shop"},
		Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS22,
			Source:  v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
		},
	}
	for _, change := range changes {
		change(fn)
	}
	return fn
}

func scaled(low, high int32) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) {
		fn.Spec.ScaleConfig = &v1alpha2.ScaleConfig{MinReplicas: new(low), MaxReplicas: new(high)}
	}
}

// runs reports the runtimes of an installation that has two.
func runs(fn *v1alpha2.Function) bool {
	return fn.Spec.Runtime == v1alpha2.RuntimeNodeJS22 || fn.Spec.Runtime == v1alpha2.RuntimePython312
}

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
	files := func(name string) func(*v1alpha2.Function) {
		return func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{v1alpha2.AnnotationFiles: name} }
	}
	tests := map[string]struct {
		change func(*v1alpha2.Function)
		want   string
	}{
		"a plain Function is fine":        {change: func(*v1alpha2.Function) {}},
		"a limit on memory alone is fine": {change: own(list("100m", ""), list("", "64Mi"))},
		"a repository over SSH is fine":   {change: repository("git@github.com:org/repo.git")},
		"a repository over HTTP is fine":  {change: repository("https://example.com/repo.git")},
		"a ConfigMap with files is fine":  {change: files("price-files")},
		"a path is no ConfigMap": {
			change: files("../price"), want: `rouse.run/files: invalid value "../price": must be the name of a ConfigMap in the Function's namespace`,
		},
		"files do not go with a repository": {
			change: func(fn *v1alpha2.Function) { repository("https://example.com/repo.git")(fn); files("price-files")(fn) },
			want:   "rouse.run/files: files belong to an inline source: remove it, or replace spec.source.gitRepository",
		},
		"a name with dots cannot name a Service": {
			change: func(fn *v1alpha2.Function) { fn.Name = "a.b" },
			want:   `metadata.name: "a.b" cannot be the name of a Service. Create the Function under a name of at most 63`,
		},
		"a long name cannot name a Service": {
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
			want: `invalid spec.secretMounts: [secretNames should be unique (Secret "a" at /b)]`,
		},
		"a path takes one Secret": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "a", MountPath: "/x"}, {SecretName: "b", MountPath: "/x"}}
			},
			want: `invalid spec.secretMounts: [mountPaths should be unique (Secret "b" at /x)]`,
		},
		"the name of a Secret must be valid": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "A", MountPath: "/a"}}
			},
			want: `(Secret "A" at /a)]`,
		},
		"labels must be valid": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"a": "b c"} },
			want:   `spec.labels: Invalid value: "b c"`,
		},
		"annotations must be valid": {
			change: func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{"a b": ""} },
			want:   `spec.annotations: Invalid value: "a b"`,
		},
		"a repository needs a URL": {
			change: repository("nowhere"), want: `source.gitRepository.URL: parse "nowhere": invalid URI for request`,
		},
		"a missing GitRepository of v1alpha1 is reported with a remedy": {
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
		"a malformed go.mod is reported with its line": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Runtime, fn.Spec.Source.Inline.Dependencies = v1alpha2.RuntimeGo126, "module shop\n\nuuid v1.6.0\n"
			},
			want: `invalid source.inline.dependencies value: line 3: "uuid" is not a directive`,
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
		"two dots within a name are harmless": {
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

func TestEveryProblemNamesItsField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*v1alpha2.Function)
		want   string
	}{
		"a name": {func(fn *v1alpha2.Function) { fn.Name = "a.b" }, "metadata.name"},
		"the invalid variable": {
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
		"the invalid label": {
			func(fn *v1alpha2.Function) { fn.Spec.Labels = map[string]string{"a": "b", "c": "d e"} }, "spec.labels[c]",
		},
		"the name of a ConfigMap with files": {
			func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{v1alpha2.AnnotationFiles: "a b"} },
			"spec.annotations[rouse.run/files]",
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
		"the switch for waking by HTTP": {
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

func TestFIPSRefusesRuntimesAndProtocolsWithoutAValidatedModule(t *testing.T) {
	t.Parallel()
	const runtimeField, urlField = "spec.runtime", "spec.source.gitRepository.url"
	for name, tc := range map[string]struct {
		runtime v1alpha2.Runtime
		url     string
		field   string // empty: accepted
		says    string
	}{
		"inline on a current Node.js":        {runtime: "nodejs24"},
		"inline on a current Python":         {runtime: "python314"},
		"inline in Go":                       {runtime: "go126"},
		"Python 3.12":                        {"python312", "", runtimeField, "python312 is refused in FIPS mode, since there is no base image with a validated module for it. Use python314"},
		"Node.js 20":                         {"nodejs20", "", runtimeField, "Use nodejs22 or nodejs24 or nodejs26"},
		"an unknown runtime":                 {runtime: "ruby33"},
		"a repository over HTTPS":            {runtime: "nodejs24", url: "https://example.com/repo.git"},
		"a repository over HTTP":             {runtime: "nodejs24", url: "http://example.com/repo.git"},
		"a scheme in capitals":               {runtime: "nodejs24", url: "HTTPS://example.com/repo.git"},
		"a repository over SSH":              {"nodejs24", "ssh://git@example.com/repo.git", urlField, "Use an https:// URL"},
		"a scheme of SSH in capitals":        {"nodejs24", "SSH://git@example.com/repo.git", urlField, "Use an https:// URL"},
		"Git's short form of SSH":            {"nodejs24", "git@example.com:repo.git", urlField, "Git over SSH is refused in FIPS mode"},
		"the short form without a user":      {"nodejs24", "example.com:repo.git", urlField, "Git over SSH is refused in FIPS mode"},
		"the short form behind a blank":      {"nodejs24", " git@example.com:repo.git", urlField, "Git over SSH is refused in FIPS mode"},
		"a short form that looks like HTTPS": {"nodejs24", "git@https:/repo.git", urlField, "Git over SSH is refused in FIPS mode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := &v1alpha2.Function{}
			fn.Spec.Runtime = tc.runtime
			if tc.url != "" {
				fn.Spec.Source.GitRepository = &v1alpha2.GitRepositorySource{URL: tc.url}
			}
			problems := FIPS(fn)
			if tc.field == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Equal(t, tc.field, problems[0].Field)
			require.Contains(t, problems[0].Text, tc.says)
		})
	}
	both := &v1alpha2.Function{}
	both.Spec.Runtime, both.Spec.Source.GitRepository = "python312", &v1alpha2.GitRepositorySource{URL: "git@example.com:repo.git"}
	require.Len(t, FIPS(both), 2)
}
