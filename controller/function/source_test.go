package function

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

func withDependencies(runtime v1alpha2.Runtime, text string) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) { fn.Spec.Runtime, fn.Spec.Source.Inline.Dependencies = runtime, text }
}

func withSource(text string) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Source = text }
}

// noise does not shrink much when it is compressed.
func noise(size int) string {
	bytes := make([]byte, size/2)
	_, _ = rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

func TestCodeReachesThePodsByEnvironmentImageOrPreparation(t *testing.T) {
	t.Parallel()
	const entry = `{"dependencies":{"a":"1"}}`
	large := noise(400_000)
	tests := map[string]struct {
		change    func(*v1alpha2.Function)
		inEnv     bool
		wantPlan  *buildplan.Plan
		wantError string
	}{
		"plain code is in the environment":       {change: func(*v1alpha2.Function) {}, inEnv: true},
		"an empty package.json is no dependency": {change: withDependencies("nodejs22", `{"name":"x","dependencies":{}}`), inEnv: true},
		"a comment is no dependency":             {change: withDependencies("python312", "\n# nothing\n"), inEnv: true},
		"large code that shrinks is in the environment": {
			change: withSource(strings.Repeat("a", 1_000_000)), inEnv: true,
		},
		"with dependencies the source stays in the environment": {
			change: withDependencies("nodejs22", entry), inEnv: true,
			wantPlan: &buildplan.Plan{Runtime: "nodejs22", Dependencies: entry},
		},
		"a package.json that makes the source a module counts": {
			change: withDependencies("nodejs22", `{"type":"module"}`), inEnv: true,
			wantPlan: &buildplan.Plan{Runtime: "nodejs22", Dependencies: `{"type":"module"}`},
		},
		"a requirements.txt with a package counts": {
			change: withDependencies("python312", "# http\nrequests==2"), inEnv: true,
			wantPlan: &buildplan.Plan{Runtime: "python312", Dependencies: "# http\nrequests==2"},
		},
		"large code is in the image": {
			change: withSource(large), wantPlan: &buildplan.Plan{Runtime: "nodejs22", Source: large},
		},
		"code that fits no Secret is refused": {
			change: withSource(noise(3_000_000)), wantError: "Move data out of the code, or keep the code in a Git repository",
		},
		"code that is compiled is in the image, also without dependencies": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Runtime, fn.Spec.Source.Inline.Source = "go126", "package handler"
			},
			wantPlan: &buildplan.Plan{Runtime: "go126", Source: "package handler"},
		},
		"files of a ConfigMap are in the image, with what of the inline source they do not contain": {
			change: func(fn *v1alpha2.Function) {
				withFiles("price-files")(fn)
				fn.Spec.Source.Inline.Dependencies = `{}`
			},
			wantPlan: &buildplan.Plan{Runtime: "nodejs22", Source: "// the files", Dependencies: `{}`},
		},
		"a repository is fetched": {
			change: func(fn *v1alpha2.Function) {
				fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{
					URL: "https://example.com/shop.git", Reference: "main", BaseDir: "/price",
					Auth: &v1alpha2.RepositoryAuth{Type: v1alpha2.RepositoryAuthBasic, SecretName: "git"},
				}}
			},
			wantPlan: &buildplan.Plan{Runtime: "nodejs22", Git: &buildplan.Git{
				URL: "https://example.com/shop.git", Reference: "main", BaseDir: "/price", Auth: "basic",
			}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := supplyOf(newFunction(tc.change), "runtime:1", nil)
			if tc.wantError != "" {
				require.ErrorContains(t, err, tc.wantError)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.inEnv, got.source != "")
			if tc.wantPlan != nil {
				tc.wantPlan.Function, tc.wantPlan.Owner, tc.wantPlan.Base = "shop/price", "uid-of-price", "runtime:1"
			}
			require.Equal(t, tc.wantPlan, got.plan)
		})
	}
}

func TestFunctionsAreRefusedInFIPSModeAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, false, newFunction())
	for mode, refused := range map[fips.Mode]bool{fips.Off: false, fips.On: true, fips.Only: true} {
		options := testOptions()
		options.Build.FIPS = mode
		fn := newFunction()
		fn.Spec.Runtime = "python312"
		err := b.decide(t.Context(), &scope{fn: fn, settings: NewLive(options, false).load().Settings})
		if !refused {
			require.NoError(t, err)
			continue
		}
		var failed *failure
		require.ErrorAs(t, err, &failed)
		require.Equal(t, v1alpha2.ConditionConfigurationReady, failed.condition)
		require.Equal(t, v1alpha2.ReasonInvalidSpec, failed.reason)
		require.Contains(t, failed.message, "spec.runtime: python312 is refused in FIPS mode")
	}
}

// runsKymasImage is on a real API server, under the same rules as any other pod.
func runsKymasImage(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	fn := w.create(withDependencies("nodejs22", leftPad), func(fn *v1alpha2.Function) { fn.Spec.RuntimeImageOverride = "kyma-like:1" })
	deployment := w.awaitImage(fn, "kyma-like:1")
	container := deployment.Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"sh", "-c"}, container.Command[:2])
	require.Empty(t, w.jobs(fn), "the pod must install without a build")
	code, ok := resources.CodeOf(&deployment.Spec.Template)
	require.True(t, ok)
	require.JSONEq(t, leftPad, code.Inline.Dependencies)
	require.Equal(t, fn.Spec.Source.Inline.Source, code.Inline.Source)
	w.roll(deployment)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	require.Equal(t, "kyma-like:1", fn.Status.RuntimeImage)
	require.True(t, *fn.Status.ContainerSecurityContext.ReadOnlyRootFilesystem)

	update(w, fn, withSource("module.exports = '"+strings.Repeat("x", 200_000)+"'"))
	preparing := w.deployment(fn)
	await(w, preparing, "code too large for the environment is prepared", func(d *appsv1.Deployment) bool {
		return len(d.Spec.Template.Spec.InitContainers) == 2
	})
	require.Equal(t, "kyma-like:1", preparing.Spec.Template.Spec.InitContainers[1].Image)
	require.Empty(t, w.jobs(fn))

	update(w, fn, func(fn *v1alpha2.Function) {
		fn.Annotations = map[string]string{v1alpha2.AnnotationRuntimeContract: v1alpha2.RuntimeContractRouse}
	})
	job := w.awaitJob(fn)
	require.Equal(t, "kyma-like:1", job.Spec.Template.Spec.Containers[0].Image, "an image that is made from ours is the base of builds")
}
