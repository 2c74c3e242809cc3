package function

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPodsGetATokenWherePublishersAreAskedForOne(t *testing.T) {
	runManager(t, simultaneous, func(o *Options) { o.PublisherAudience = "rouse-eventbridge" })
	w := newFixture(t)
	deployment := w.deployment(w.create())
	pod := deployment.Spec.Template.Spec
	require.Len(t, pod.Volumes, 1)
	require.Equal(t, "rouse-eventbridge", pod.Volumes[0].Projected.Sources[0].ServiceAccountToken.Audience)
	require.Empty(t, pod.ServiceAccountName, "that of the namespace")
	require.False(t, *pod.AutomountServiceAccountToken)
	settle()
	require.EqualValues(t, 1, w.deployment(newFunction()).Generation, "what the API server adds is no change")
}
