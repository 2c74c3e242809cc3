package kube

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestOnlyATokenForTheAudienceIsOfAServiceAccount(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "default"}}
	require.NoError(t, env.Client.Create(t.Context(), account))
	token := func(audiences ...string) string {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		require.NoError(t, env.Client.SubResource("token").Create(t.Context(), account, request))
		return request.Status.Token
	}
	reviews := ReviewsBy(env.Client)
	namespace, name, ok, err := reviews.ServiceAccountOf(t.Context(), token("rouse-eventbridge"), "rouse-eventbridge")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []string{account.Namespace, "default"}, []string{namespace, name})
	for title, other := range map[string]string{"for the API server": token(), "for another audience": token("vault"), "made up": "x"} {
		_, _, ok, err := reviews.ServiceAccountOf(t.Context(), other, "rouse-eventbridge")
		require.NoError(t, err, title)
		require.False(t, ok, title)
	}
}
