package function

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/sourcefiles"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

func withFiles(name string) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) {
		fn.Spec.Annotations = map[string]string{v1alpha2.AnnotationFiles: name, "mine": "stays"}
		fn.Spec.Source.Inline = &v1alpha2.InlineSource{Source: "// the files"}
	}
}

func someFiles(text string) map[string]string {
	return map[string]string{"handler.js": "exports.main = () => require('./lib/text.js')", "lib..text.js": "module.exports = '" + text + "'"}
}

// planOf returns the plan in a Secret that a build or a pod is given.
func (w *fixture) planOf(name string) buildplan.Plan {
	w.t.Helper()
	input := &corev1.Secret{}
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, input))
	plan, err := buildplan.DecodePlan(input.Data[buildplan.PlanFile])
	require.NoError(w.t, err)
	return plan
}

func buildsFiles(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	fn := w.create(withFiles("price-files"))
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonSourceUpdateFailed)
	require.Contains(t, condition.Message, `ConfigMap "price-files" not found`)

	files := configMap("price-files", someFiles("one"))
	files.Namespace = w.namespace
	require.NoError(t, w.Create(t.Context(), files))
	finish := func(before ...*batchv1.Job) (*batchv1.Job, *appsv1.Deployment) {
		job := w.awaitJob(fn, before...)
		digest := push(t, target(job))
		w.end(job, buildplan.Result{Digest: digest}, time.Now())
		deployment := w.awaitImage(fn, server.Host+"/"+w.repository()+"@"+digest)
		w.roll(deployment)
		return job, deployment
	}
	job := w.awaitJob(fn)
	plan := w.planOf(job.Name)
	require.Equal(t, "module.exports = 'one'", string(plan.Files["lib/text.js"]))
	require.Equal(t, sourcefiles.Files(plan.Files).Digest(), plan.FilesDigest)
	job, deployment := finish()
	require.Empty(t, sourceOf(deployment), "the source must only be in the image")
	require.Equal(t, "stays", deployment.Spec.Template.Annotations["mine"])
	require.NotContains(t, deployment.Spec.Template.Annotations, v1alpha2.AnnotationFiles, "another ConfigMap of the same files must not replace pods")
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)

	update(w, files, func(c *corev1.ConfigMap) { c.Data = someFiles("two") })
	_, deployment = finish(job)
	running := deployment.Spec.Template.Spec.Containers[0].Image

	update(w, files, func(c *corev1.ConfigMap) { c.Data["lib......passwd"] = "x" })
	condition = w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonSourceUpdateFailed)
	require.Contains(t, condition.Message, `ConfigMap "price-files": key "lib......passwd"`)
	require.NoError(t, w.Delete(t.Context(), files))
	require.Eventually(t, func() bool {
		condition = w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonSourceUpdateFailed)
		return strings.Contains(condition.Message, "not found")
	}, timeout, tick)
	w.awaitImage(fn, running)

	files = configMap("price-files", someFiles("two"))
	files.Namespace = w.namespace
	require.NoError(t, w.Create(t.Context(), files))
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	w.awaitImage(fn, running)
}

func installsFilesInPods(w *fixture, _ *fakeRepositories) {
	t := w.t
	files := configMap("price-files", someFiles("one"))
	files.Namespace = w.namespace
	require.NoError(t, w.Create(t.Context(), files))
	fn := w.create(withFiles("price-files"))
	deployment := w.awaitImage(fn, "runtime-nodejs22:1")
	w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonNoRegistry)
	code, ok := resources.CodeOf(&deployment.Spec.Template)
	require.True(t, ok)
	require.Equal(t, "module.exports = 'one'", string(w.planOf(code.Prepared.Input).Files["lib/text.js"]))

	update(w, files, func(c *corev1.ConfigMap) { c.Data = someFiles("two") })
	await(w, deployment, "the pods get the new files", func(d *appsv1.Deployment) bool {
		now, ok := resources.CodeOf(&d.Spec.Template)
		return ok && now.Prepared.Input != code.Prepared.Input && string(w.planOf(now.Prepared.Input).Files["lib/text.js"]) == "module.exports = 'two'"
	})
}

func TestFilesOfAConfigMapAreReadOnceForEachVersion(t *testing.T) {
	t.Parallel()
	files := configMap("price-files", someFiles("one"))
	b := newBench(t, false, newFunction(withFiles("price-files")), files)
	digest := func() string {
		t.Helper()
		s := &scope{fn: b.function(), plan: &buildplan.Plan{}}
		require.NoError(t, b.findFiles(t.Context(), s))
		require.Empty(t, s.source.status, s.source.message)
		return s.plan.FilesDigest
	}
	first := digest()
	require.Len(t, first, 64)
	live := b.live
	b.live = nil
	require.Equal(t, first, digest(), "it must not be read again")
	b.live = live
	files.Data = someFiles("two")
	b.write(files)
	require.NotEqual(t, first, digest())
}

func TestFilesThatNoBuildCanHaveAreReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data map[string]string
		want string
	}{
		"a path that leaves the directory": {map[string]string{"....a": "x"}, `ConfigMap "price-files": key "....a"`},
		"no files":                         {nil, `ConfigMap "price-files": it has no keys`},
		"files that do not fit":            {map[string]string{"a": noise(1 << 20), "b": noise(1 << 20), "c": noise(1 << 20)}, "the files take 3.0 MiB, and 1.0 MiB are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, false, newFunction(withFiles("price-files")), configMap("price-files", tc.data))
			s := &scope{fn: b.function(), plan: &buildplan.Plan{}}
			require.NoError(t, b.findFiles(t.Context(), s))
			require.Contains(t, s.source.message, tc.want)
			require.False(t, s.source.stalls, "another object puts it right")
			require.True(t, awaitsFiles(s))
		})
	}
}

func TestFilesThatChangeWhileTheirBuildBeginsAreNotBuilt(t *testing.T) {
	t.Parallel()
	files := configMap("price-files", someFiles("one"))
	b := newBench(t, false, newFunction(withFiles("price-files")), files)
	s := &scope{fn: b.function(), plan: &buildplan.Plan{}}
	require.NoError(t, b.findFiles(t.Context(), s))
	whole, err := b.withFiles(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, whole.Files, 2)
	require.Nil(t, s.plan.Files, "the content must not stay in memory")
	files.Data = someFiles("two")
	b.write(files)
	_, err = b.withFiles(t.Context(), s)
	require.ErrorContains(t, err, "changed while its build began")
	require.NoError(t, b.client.Delete(t.Context(), files))
	_, err = b.withFiles(t.Context(), s)
	require.ErrorContains(t, err, "was deleted while its build began")
}

func TestFunctionsAreIndexedByTheConfigMapOfTheirFiles(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"ConfigMap/price-files"}, indexReferences(newFunction(withFiles("price-files"))))
	require.Contains(t, indexReferences(newFunction(withFiles("price-files"), follows)), "Secret/token")
}
