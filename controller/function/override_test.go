package function

import (
	"strings"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

// runsKymasImage is on a real API server, under the same rules as any other pod.
func runsKymasImage(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	fn := w.create(withDependencies("nodejs22", leftPad), func(fn *v1alpha2.Function) { fn.Spec.RuntimeImageOverride = "kyma-like:1" })
	deployment := w.awaitImage(fn, "kyma-like:1")
	container := deployment.Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"sh", "-c"}, container.Command[:2])
	require.Empty(t, w.jobs(fn), "nothing is built: the pod installs")
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
	await(w, preparing, "what does not fit the environment is prepared", func(d *appsv1.Deployment) bool {
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
