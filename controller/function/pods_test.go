package function

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestAPullThatIsRepeatedSaysOneThing(t *testing.T) {
	t.Parallel()
	const cause = `failed to pull and unpack image "nope:1": not found`
	failed := waitingFor(reasonErrImagePull, cause)
	backOff := waitingFor(reasonImagePullBackOff, `Back-off pulling image "nope:1": ErrImagePull: `+cause)
	told := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := pod(0, change)
		return &pod
	}
	require.Equal(t, trouble{detail: "ErrImagePull: " + cause}, troubleOf(told(failed)))
	require.Equal(t, troubleOf(told(failed)), troubleOf(told(backOff)))
	require.False(t, troubleDiffers(told(failed), told(backOff)), "so nothing is written, and nothing is reconciled")
	require.Equal(t, buildTrouble([]corev1.Pod{*told(failed)}), buildTrouble([]corev1.Pod{*told(backOff)}))
	require.Equal(t, `ImagePullBackOff: Back-off pulling image "nope:1"`,
		troubleOf(told(waitingFor(reasonImagePullBackOff, `Back-off pulling image "nope:1"`))).detail, "an older Kubernetes does not quote")
}
