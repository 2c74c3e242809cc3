package gitops

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Health is how an object does, in the words of two tools.
type Health struct {
	// Kstatus is what Flux goes by, Argo what Argo CD shows.
	Kstatus, Argo string
}

// RequireCurrent fails the test unless the tools take the object, as the API server serves it, for one that is in force. It
// returns what Argo CD shows.
func RequireCurrent(t testing.TB, object runtime.Object) string {
	t.Helper()
	return requireHealth(t, Health{string(status.CurrentStatus), "Healthy"}, object)
}

// RequireInProgress fails the test unless they go on waiting for it. It returns what Argo CD shows.
func RequireInProgress(t testing.TB, object runtime.Object) string {
	t.Helper()
	return requireHealth(t, Health{string(status.InProgressStatus), "Progressing"}, object)
}

// RequireFailed fails the test unless they give it up. It returns what Argo CD shows.
func RequireFailed(t testing.TB, object runtime.Object) string {
	t.Helper()
	return requireHealth(t, Health{string(status.FailedStatus), "Degraded"}, object)
}

func requireHealth(t testing.TB, want Health, object runtime.Object) string {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	got, message := HealthOf(t, &unstructured.Unstructured{Object: content})
	require.Equal(t, want, got, "%s; the object: %+v", message, content)
	return message
}

// HealthOf is how an object of a kind with a script in docs/gitops.md does, and what Argo CD shows beside it.
func HealthOf(t testing.TB, object *unstructured.Unstructured) (Health, string) {
	t.Helper()
	computed, err := status.Compute(object)
	require.NoError(t, err)
	argo, message := runScript(t, scriptOf(t), object.Object)
	return Health{Kstatus: string(computed.Status), Argo: argo}, message
}
