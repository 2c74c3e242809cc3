package conversion

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

var repositories = Repositories{
	types.NamespacedName{Namespace: "shop", Name: "repo"}: {
		URL: "https://example.com/a.git", Auth: &v1alpha1.RepositoryAuth{Type: v1alpha2.RepositoryAuthBasic, SecretName: "login"},
	},
	types.NamespacedName{Namespace: "shop", Name: "open"}: {URL: "https://example.com/b.git"},
}

// old returns a Function of v1alpha1 with the given spec and metadata.
func old(t *testing.T, spec, metadata string) *v1alpha1.Function {
	t.Helper()
	fn := &v1alpha1.Function{}
	text := "apiVersion: serverless.kyma-project.io/v1alpha1\nkind: Function\nmetadata: {name: price, namespace: shop" + metadata + "}\nspec: {" + spec + "}"
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), fn))
	return fn
}

func TestFieldsAreConvertedThereAndBack(t *testing.T) {
	t.Parallel()
	const inline = `source: {inline: {source: code}}, replicas: 1`
	tests := map[string]struct{ spec, metadata, want, wantMetadata string }{
		"code alone":        {"runtime: nodejs22, source: code", "", "runtime: nodejs22, " + inline, ""},
		"no runtime":        {"source: code", "", "runtime: nodejs22, " + inline, ""},
		"a runtime of 2020": {"runtime: nodejs12, source: code", "", "runtime: nodejs22, " + inline, ""},
		"a Python of 2022":  {"runtime: python39, source: code, deps: requests", "", "runtime: python312, source: {inline: {source: code, dependencies: requests}}, replicas: 1", ""},
		"an image of one's own": {
			"runtime: nodejs22, source: code, runtimeImageOverride: example.com/a", "", "runtime: nodejs22, runtimeImageOverride: example.com/a, " + inline, "",
		},
		"replicas": {
			"runtime: nodejs22, source: code, minReplicas: 2, maxReplicas: 5", "",
			"runtime: nodejs22, source: {inline: {source: code}}, replicas: 2, scaleConfig: {minReplicas: 2, maxReplicas: 5}", "",
		},
		"replicas of the first versions": {
			"runtime: nodejs22, source: code, minReplicas: 0, maxReplicas: 1", "",
			"runtime: nodejs22, source: {inline: {source: code}}, replicas: 0, scaleConfig: {minReplicas: 0, maxReplicas: 1}", "",
		},
		"at most alone": {
			"runtime: nodejs22, source: code, maxReplicas: 5", "",
			"runtime: nodejs22, source: {inline: {source: code}}, replicas: 1, scaleConfig: {minReplicas: 1, maxReplicas: 5}", "",
		},
		"at least alone": {
			"runtime: nodejs22, source: code, minReplicas: 3", "",
			"runtime: nodejs22, source: {inline: {source: code}}, replicas: 3, scaleConfig: {minReplicas: 3, maxReplicas: 3}", "",
		},
		"presets": {
			"runtime: nodejs22, source: code",
			", labels: {a: b, serverless.kyma-project.io/function-resources-preset: S, serverless.kyma-project.io/build-resources-preset: fast}",
			"runtime: nodejs22, resourceConfiguration: {function: {profile: S}, build: {profile: fast}}, " + inline, ", labels: {a: b}",
		},
		"resources": {
			"runtime: nodejs22, source: code, resources: {limits: {cpu: 1}}, buildResources: {requests: {memory: 1Gi}}", "",
			"runtime: nodejs22, resourceConfiguration: {function: {resources: {limits: {cpu: 1}}}, build: {resources: {requests: {memory: 1Gi}}}}, " + inline, "",
		},
		"resources beside a preset, and empty ones": {
			"runtime: nodejs22, source: code, resources: {limits: {cpu: 1}}, buildResources: {}", ", labels: {serverless.kyma-project.io/function-resources-preset: S}",
			"runtime: nodejs22, resourceConfiguration: {function: {resources: {limits: {cpu: 1}}}}, " + inline, "",
		},
		"labels and environment": {
			"runtime: nodejs22, source: code, labels: {a: b}, env: [{name: A, value: b}]", "",
			"runtime: nodejs22, labels: {a: b}, env: [{name: A, value: b}], " + inline, "",
		},
		"secrets as files": {
			"runtime: nodejs22, source: code", `, annotations: {a: b, serverless.kyma-project.io/v1alpha1SecretMounts: '[ {"secretName": "a", "mountPath": "/b"} ]'}`,
			"runtime: nodejs22, secretMounts: [{secretName: a, mountPath: /b}], " + inline, ", annotations: {a: b}",
		},
		"Git with a login": {
			"runtime: nodejs22, type: git, source: repo, baseDir: /a, reference: main", "",
			"runtime: nodejs22, replicas: 1, source: {gitRepository: {url: 'https://example.com/a.git', auth: {type: basic, secretName: login}, baseDir: /a, reference: main}}",
			"",
		},
		"Git with dependencies": {
			"runtime: nodejs22, type: git, source: open, baseDir: /a, reference: main, deps: '{}'", "",
			"runtime: nodejs22, replicas: 1, source: {gitRepository: {url: 'https://example.com/b.git', baseDir: /a, reference: main}}",
			"",
		},
		"a folder of code in the manifest": {"runtime: nodejs22, source: code, baseDir: /a, reference: b", "", "runtime: nodejs22, " + inline, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := old(t, tc.spec, tc.metadata)
			made, report := Up(before, repositories)
			require.NoError(t, report.Err())
			require.Equal(t, old(t, tc.spec, tc.metadata), before, "the argument must not change")

			back := Down(made)
			delete(back.Annotations, v1alpha1.AnnotationNewFields)
			requireSame(t, before, back)

			require.Equal(t, before.Spec.Type == "git", made.Annotations[v1alpha1.AnnotationGitRepository] == before.Spec.Source)
			Forget(made)
			want := &v1alpha2.Function{}
			text := "apiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\nmetadata: {name: price, namespace: shop" + tc.wantMetadata + "}\nspec: {" + tc.want + "}"
			require.NoError(t, yaml.UnmarshalStrict([]byte(text), want))
			requireSame(t, want, made)
		})
	}
}

// requireSame compares what an API server would.
func requireSame(t *testing.T, want, got any) {
	t.Helper()
	require.JSONEq(t, encode(t, want), encode(t, got))
}

func encode(t *testing.T, of any) string {
	t.Helper()
	text, err := json.Marshal(of)
	require.NoError(t, err)
	var content map[string]any
	require.NoError(t, json.Unmarshal(text, &content))
	metadata, ok := content["metadata"].(map[string]any)
	require.True(t, ok)
	for _, key := range []string{"annotations", "labels"} {
		if values, ok := metadata[key].(map[string]any); ok && len(values) == 0 {
			delete(metadata, key)
		}
	}
	text, err = json.Marshal(content)
	require.NoError(t, err)
	return string(text)
}

func TestReportListsFieldsWhoseMeaningChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ spec, metadata, want string }{
		"an old runtime":          {"source: a, runtime: nodejs16", "", "spec.runtime: nodejs16 is not supported any more; it becomes nodejs22: try the code and its dependencies with it"},
		"no runtime":              {"source: a", "", "spec.runtime: it was nodejs14 where it was not said; it becomes nodejs22: try the code with it, and say it"},
		"dependencies beside Git": {"source: open, type: git, deps: a, runtime: nodejs22", "", "spec.deps: the dependencies of code in Git are read from its repository: see that they are there"},
		"a folder without Git":    {"source: a, baseDir: b, runtime: nodejs22", "", "spec.baseDir: folder and reference mean nothing without spec.type: git: take them away, or set the type"},
		"at most alone":           {"source: a, maxReplicas: 5, runtime: nodejs22", "", "spec.minReplicas, spec.maxReplicas: v1alpha2 needs both: they become 1 and 5: see that this is meant"},
		"a preset and resources": {
			"source: a, runtime: nodejs22, resources: {limits: {cpu: 1}}", ", labels: {serverless.kyma-project.io/function-resources-preset: S}",
			"metadata.labels[serverless.kyma-project.io/function-resources-preset]: v1alpha2 has a profile or resources, and spec.resources were in force: take the label away, or the resources",
		},
		"a preset and resources of builds": {
			"source: a, runtime: nodejs22, buildResources: {limits: {cpu: 1}}", ", labels: {serverless.kyma-project.io/build-resources-preset: fast}",
			"metadata.labels[serverless.kyma-project.io/build-resources-preset]: v1alpha2 has a profile or resources, and spec.buildResources were in force: take the label away, or the resources",
		},
		"nothing": {"source: a, runtime: nodejs22", "", ""},
	} {
		_, report := Up(old(t, tc.spec, tc.metadata), repositories)
		require.NoError(t, report.Err(), name)
		lines := make([]string, len(report.Changed))
		for i, finding := range report.Changed {
			lines[i] = finding.String()
		}
		require.Equal(t, tc.want, strings.Join(lines, "\n"), name)
	}
}

func TestFieldThatCannotBeConvertedIsAProblem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ spec, metadata, want string }{
		"a GitRepository that is missing": {
			"source: gone, type: git", "", "spec.source: GitRepository shop/gone is missing, which has the URL: add its manifest, before the Function's, " +
				"or write the Function as v1alpha2 with spec.source.gitRepository",
		},
		"no GitRepository": {`source: "", type: git`, "", "spec.source: it names no GitRepository: write the name of one"},
		"another type":     {`source: "", type: svn`, "", `spec.type: there is no type "svn": write git, or leave it away for code in the manifest`},
		"malformed mounts": {
			"source: a", ", annotations: {serverless.kyma-project.io/v1alpha1SecretMounts: '{}'}",
			"metadata.annotations[serverless.kyma-project.io/v1alpha1SecretMounts]: it is no list of mounts in JSON: ",
		},
		"malformed stored fields": {
			"source: a", ", annotations: {rouse.run/v1alpha2-fields: '[]'}", "metadata.annotations[rouse.run/v1alpha2-fields]: decode the annotation",
		},
		"more stored fields than an annotation can hold": {
			"source: repo, type: git, deps: " + strings.Repeat("a", maxKept), "", "spec: more than 64 KiB would have to be kept of it: take away",
		},
	} {
		made, report := Up(old(t, tc.spec, tc.metadata), repositories)
		require.Nil(t, made, name)
		require.ErrorContains(t, report.Err(), tc.want, name)
	}
}

// full returns a Function of v1alpha2 with all fields that v1alpha1 lacks.
func full(t *testing.T) *v1alpha2.Function {
	t.Helper()
	fn := &v1alpha2.Function{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata:
  name: price
  namespace: shop
  labels: {a: b, serverless.kyma-project.io/function-resources-preset: nonsense}
  annotations: {a: b, serverless.kyma-project.io/v1alpha1SecretMounts: nonsense}
spec:
  runtime: nodejs24
  source: {gitRepository: {url: "https://example.com/c.git", auth: {type: basic, secretName: login}, baseDir: /a, reference: main}}
  podSecurityContext: {runAsUser: 1000}
  containerSecurityContext: {readOnlyRootFilesystem: true}
  env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: b}}}]
  resourceConfiguration: {function: {profile: S}}
  scaleConfig: {minReplicas: 0, maxReplicas: 5}
  replicas: 3
  template: {}
  secretMounts: [{secretName: a, mountPath: /b}]
  labels: {c: d}
  annotations: {e: f}
status:
  observedGeneration: 3
  conditions: [{type: Running, status: "True", reason: DeploymentReady, message: ready, observedGeneration: 3, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  runtime: nodejs24
  replicas: 3
  podSelector: a=b
  build: {tag: a, image: "example.com/a@sha256:b"}
  version: c
  gitRepository: {url: "https://example.com/c.git", baseDir: /a, reference: main, commit: abc}
`), fn))
	return fn
}

func TestFunctionRoundTripsThroughV1alpha1(t *testing.T) {
	t.Parallel()
	fn := full(t)
	written := Down(fn)
	requireSame(t, full(t), fn)
	require.Equal(t, "abc", written.Status.Commit)
	require.Equal(t, "Running", written.Status.Conditions[0].Type)
	back, report := Up(written, nil)
	require.NoError(t, report.Err())
	requireSame(t, fn, back)
}

func TestChangeInV1alpha1KeepsTheFieldsThatItLacks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Function)
		want   func(*v1alpha2.Function)
	}{
		"the number of pods": {
			func(fn *v1alpha1.Function) { fn.Spec.MaxReplicas = new(int32(9)) },
			func(fn *v1alpha2.Function) { fn.Spec.ScaleConfig.MaxReplicas = new(int32(9)) },
		},
		"the preset": {
			func(fn *v1alpha1.Function) { fn.Labels[v1alpha1.LabelFunctionPreset] = "L" },
			func(fn *v1alpha2.Function) {
				fn.Spec.ResourceConfiguration.Function.Profile = "L"
				delete(fn.Labels, v1alpha1.LabelFunctionPreset)
			},
		},
		"the runtime": {
			func(fn *v1alpha1.Function) { fn.Spec.Runtime = "nodejs22" },
			func(fn *v1alpha2.Function) { fn.Spec.Runtime = "nodejs22" },
		},
		"the repository": {
			func(fn *v1alpha1.Function) { fn.Spec.Source = "open" },
			func(fn *v1alpha2.Function) {
				fn.Spec.Source.GitRepository.URL, fn.Spec.Source.GitRepository.Auth = "https://example.com/b.git", nil
				fn.Annotations[v1alpha1.AnnotationGitRepository] = "open"
			},
		},
		"code in place of Git": {
			func(fn *v1alpha1.Function) {
				fn.Spec.Type, fn.Spec.BaseDir, fn.Spec.Reference, fn.Spec.Source = "", "", "", "code"
			},
			func(fn *v1alpha2.Function) {
				fn.Spec.Source = v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "code"}}
			},
		},
		"the mounts": {
			func(fn *v1alpha1.Function) {
				fn.Annotations[v1alpha1.AnnotationSecretMounts] = `[{"secretName":"c","mountPath":"/d"}]`
			},
			func(fn *v1alpha2.Function) {
				fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: "c", MountPath: "/d"}}
				delete(fn.Annotations, v1alpha1.AnnotationSecretMounts)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written, want := Down(full(t)), full(t)
			tc.change(written)
			tc.want(want)
			back, report := Up(written, repositories)
			require.NoError(t, report.Err())
			requireSame(t, want, back)
		})
	}
}

func TestChangeInV1alpha2IsVisibleInV1alpha1(t *testing.T) {
	t.Parallel()
	made, _ := Up(old(t, "runtime: nodejs14, source: repo, type: git, baseDir: /a, reference: main, maxReplicas: 5", ""), repositories)
	require.Equal(t, "nodejs14", Down(made).Spec.Runtime)
	made.Spec.Runtime = v1alpha2.RuntimeNodeJS24
	made.Spec.Replicas = new(int32(4)) // like an autoscaler
	written := Down(made)
	require.Equal(t, "nodejs24", written.Spec.Runtime)
	require.Nil(t, written.Spec.MinReplicas, "unset fields must stay unset")
	require.Equal(t, int32(5), *written.Spec.MaxReplicas)
	made.Spec.ScaleConfig.MaxReplicas = new(int32(9))
	require.Equal(t, int32(9), *Down(made).Spec.MaxReplicas)
}

func TestGitRepositoryOverridesTheStoredURL(t *testing.T) {
	t.Parallel()
	made, _ := Up(old(t, "runtime: nodejs22, source: repo, type: git, baseDir: /a, reference: main", ""), repositories)
	written := Down(made)
	moved := Repositories{types.NamespacedName{Namespace: "shop", Name: "repo"}: {URL: "https://example.com/moved.git"}}
	back, report := Up(written, moved)
	require.NoError(t, report.Err())
	require.Equal(t, "https://example.com/moved.git", back.Spec.Source.GitRepository.URL)
	require.Nil(t, back.Spec.Source.GitRepository.Auth)

	back, report = Up(written, nil)
	require.NoError(t, report.Err(), "it was deleted after the Function was written")
	require.Equal(t, made.Spec.Source, back.Spec.Source)
}

func TestFunctionOfAnUnknownGitRepositoryIsConvertedWithoutItsURL(t *testing.T) {
	t.Parallel()
	made, report := Up(old(t, "runtime: nodejs22, source: later, type: git, baseDir: /a, reference: main", ""), nil)
	require.NoError(t, report.Err())
	require.Empty(t, made.Spec.Source.GitRepository.URL)
	require.Equal(t, "later", made.Annotations[v1alpha1.AnnotationGitRepository])
}

func TestAStatusIsNotReadFromAnAnnotation(t *testing.T) {
	t.Parallel()
	fn := old(t, "runtime: nodejs22, source: code", "")
	fn.Annotations = map[string]string{v1alpha1.AnnotationNewFields: `{"status":{"build":{"tag":"a","image":"b"}},"only":{"status":{"version":"c"}}}`}
	made, report := Up(fn, nil)
	require.NoError(t, report.Err())
	require.Equal(t, v1alpha2.FunctionStatus{}, made.Status)
}

func TestConditionsThatV1alpha2WouldRejectAreLeftOut(t *testing.T) {
	t.Parallel()
	fn := old(t, "runtime: nodejs22, source: code", "")
	fn.Status.Conditions = []v1alpha1.Condition{
		{Type: "Running", Status: "True", Reason: "Ready"}, {Type: "Running", Status: "False", Reason: "Twice"}, {Type: "NoReason", Status: "True"}, {Reason: "NoType"},
	}
	made, _ := Up(fn, nil)
	require.Equal(t, []metav1.Condition{{Type: "Running", Status: "True", Reason: "Ready"}}, made.Status.Conditions)
}

func FuzzNothingIsLostOnTheWayToV1alpha1AndBack(f *testing.F) {
	f.Add(`{"spec":{"runtime":"nodejs20","replicas":0,"source":{"inline":{"source":"a","dependencies":"b"}}}}`)
	f.Add(`{"metadata":{"annotations":{"rouse.run/v1alpha1-fields":"{\"scale\":{\"min\":1}}"}},"spec":{"scaleConfig":{"minReplicas":1,"maxReplicas":null}}}`)
	f.Add(`{"spec":{"source":{"gitRepository":{"url":"a"}},"resourceConfiguration":{"build":{"profile":"fast","resources":{}}}}}`)
	f.Add(`{"metadata":{"labels":{"serverless.kyma-project.io/build-resources-preset":""}},"spec":{"template":{"labels":{"a":"b"}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		fn := &v1alpha2.Function{}
		if json.Unmarshal([]byte(text), fn) != nil {
			return
		}
		fn.APIVersion, fn.Kind = v1alpha2.GroupVersion.String(), "Function"
		delete(fn.Annotations, v1alpha1.AnnotationNewFields)
		both := fn.Spec.Source.Inline != nil && fn.Spec.Source.GitRepository != nil
		written := Down(fn)
		delete(fn.Annotations, v1alpha1.AnnotationOldFields) // no longer needed
		if git := fn.Spec.Source.GitRepository; both || git != nil && git.URL == "" {
			return // no API server accepts it
		}
		back, report := Up(written, nil)
		if fn.Spec.Source.Inline == nil && fn.Spec.Source.GitRepository == nil {
			return
		}
		require.NoError(t, report.Err())
		delete(back.Annotations, v1alpha1.AnnotationOldFields)
		requireSame(t, fn, back)
	})
}
