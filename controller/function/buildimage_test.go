package function

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// A tenant's registry may take as long as it likes, and all workers of the controller would wait with it.
func TestAReconciliationDoesNotWaitForARegistry(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	b := newBench(t, false, newFunction(withDependencies("nodejs22", leftPad)), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: v1alpha2.RegistrySecret, Labels: map[string]string{v1alpha2.LabelRemoteRegistry: v1alpha2.RemoteRegistryConfig},
		},
		Data: map[string][]byte{"registryAddress": []byte(host), "insecure": []byte("true")},
	})
	registries := NewAsker[bool](AskerLimits{AtATime: 4, Waiting: 4, Timeout: time.Minute})
	b.images = registries
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- registries.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	condition := func() *metav1.Condition {
		_, err := b.reconcile()
		require.NoError(t, err)
		return meta.FindStatusCondition(b.function().Status.Conditions, v1alpha2.ConditionBuildReady)
	}
	waits := condition()
	require.Equal(t, v1alpha2.ReasonBuildQueued, waits.Reason)
	require.Equal(t, "Waiting for an answer of the registry "+host, waits.Message)
	<-asked
	require.Equal(t, v1alpha2.ReasonBuildQueued, condition().Reason, "nor when it comes again meanwhile")
	close(answer)
	require.Equal(t, client.ObjectKey{Namespace: "shop", Name: "price"}, client.ObjectKeyFromObject((<-registries.Events()).Object))
	require.Equal(t, v1alpha2.ReasonJobCreated, condition().Reason)
}
