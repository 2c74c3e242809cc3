package function

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/fair"
)

func object(namespace string, number int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(number)}
}

// servers are registries that respond slowly.
type servers struct {
	mu          sync.Mutex
	asked, most int
	asking      int
}

func (s *servers) query(namespace string, key any, takes, fresh time.Duration) query {
	return query{key: key, namespace: namespace, maxAge: fresh, run: func(ctx context.Context) (bool, error) {
		s.count(1)
		defer s.count(-1)
		select {
		case <-time.After(takes):
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}}
}

func (s *servers) count(change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking += change
	s.most = max(s.most, s.asking)
	if change > 0 {
		s.asked++
	}
}

func (s *servers) seen() (asked, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.most
}

func usual() queryLimits { return queryLimits{concurrent: 4, waiting: 1000, timeout: 5 * time.Second} }

// start runs queries in a synctest bubble.
func start(t *testing.T, limits queryLimits) *queries {
	t.Helper()
	a := newQueries(limits)
	go func() { _ = a.Start(t.Context()) }()
	return a
}

// ask sends an object's first query.
func ask(a *queries, object types.NamespacedName, question query) {
	_, _, _ = a.result(object, question)
}

func next(a *queries) types.NamespacedName {
	return client.ObjectKeyFromObject((<-a.events).Object)
}

func TestRegistryQueriesEnqueueTheObjectWithoutBlocking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		slow := s.query("shop", "registry", 4*time.Second, 0)
		began := time.Now()
		_, known, _ := a.result(object("shop", 1), slow)
		require.False(t, known)
		require.Equal(t, began, time.Now(), "it was blocked")
		require.Equal(t, object("shop", 1), next(a))
		require.Equal(t, 4*time.Second, time.Since(began))
		time.Sleep(time.Hour) // until a worker reads the event
		answer, known, err := a.result(object("shop", 1), slow)
		require.NoError(t, err)
		require.True(t, known)
		require.True(t, answer)
		_, known, _ = a.result(object("shop", 1), slow)
		require.False(t, known, "it was given once")
	})
}

func TestEqualRegistryQueriesShareOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		same := s.query("shop", "registry", time.Second, 10*time.Second)
		for i := range 20 {
			_, known, _ := a.result(object("shop", i), same)
			require.False(t, known)
			_, known, _ = a.result(object("shop", i), same)
			require.False(t, known)
		}
		notified := map[types.NamespacedName]bool{}
		for range 20 {
			notified[next(a)] = true
		}
		require.Len(t, notified, 20)
		for i := range 30 { // ten of them arrive later
			_, known, _ := a.result(object("shop", i), same)
			require.True(t, known)
		}
		asked, _ := s.seen()
		require.Equal(t, 1, asked)
		time.Sleep(10 * time.Second)
		_, known, _ := a.result(object("shop", 1), same)
		require.False(t, known, "the answer is too old")
	})
}

func TestRegistryQueriesAreSharedByNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		for i := range 100 {
			ask(a, object("hostile", i), s.query("hostile", i, time.Hour, 0))
		}
		synctest.Wait()
		_, most := s.seen()
		require.Equal(t, 2, most)
		began := time.Now()
		ask(a, object("shop", 1), s.query("shop", "shop", 100*time.Millisecond, 0))
		require.Equal(t, object("shop", 1), next(a), "it comes past 98 that wait")
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func TestARegistryQueryTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		mute := s.query("shop", "registry", time.Hour, 0)
		began := time.Now()
		ask(a, object("shop", 1), mute)
		next(a)
		require.Equal(t, 5*time.Second, time.Since(began))
		_, known, err := a.result(object("shop", 1), mute)
		require.True(t, known)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestExcessRegistryQueriesFailAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, queryLimits{concurrent: 2, waiting: 4, timeout: time.Minute}), &servers{}
		refused := 0
		for i := range 10 {
			question := s.query("hostile", i, time.Minute, 0)
			ask(a, object("hostile", i), question)
		}
		for range 7 { // one is sent, two wait
			name := next(a)
			number, err := strconv.Atoi(name.Name)
			require.NoError(t, err)
			_, known, err := a.result(name, s.query("hostile", number, time.Minute, 0))
			require.True(t, known)
			if errors.Is(err, fair.ErrFull) {
				refused++
			}
		}
		require.Equal(t, 7, refused)
		ask(a, object("shop", 1), s.query("shop", "shop", time.Second, 0))
		require.Equal(t, object("shop", 1), next(a))
	})
}

func TestForgottenRegistryQueriesEnqueueNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		ask(a, object("shop", 1), s.query("shop", "old", time.Second, 0))
		ask(a, object("shop", 1), s.query("shop", "new", 2*time.Second, 0))
		ask(a, object("shop", 2), s.query("shop", "old", time.Second, 0))
		a.forget(object("shop", 2))
		began := time.Now()
		require.Equal(t, object("shop", 1), next(a))
		require.Equal(t, 2*time.Second, time.Since(began))
		_, known, _ := a.result(object("shop", 1), s.query("shop", "new", time.Second, 0))
		require.True(t, known)
		ask(a, object("shop", 3), s.query("shop", "last", time.Second, 0))
		next(a)
		a.forget(object("shop", 3))
		ask(a, object("shop", 4), s.query("shop", "very last", time.Second, 0))
		next(a)
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Len(t, a.byKey, 1, "results that no object waits for are dropped")
		require.Len(t, a.byObject, 1)
	})
}

// A tenant's registry may respond arbitrarily slowly, and would block all workers of the controller.
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
	queried := newQueries(queryLimits{concurrent: 4, waiting: 4, timeout: time.Minute})
	b.registries = registryClient{images.NewResolver(b.client, b.client, registryOptions(), nil), queried}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- queried.Start(ctx) }()
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
	require.Equal(t, "Waiting for the registry "+host+" to answer", waits.Message)
	<-asked
	require.Equal(t, v1alpha2.ReasonBuildQueued, condition().Reason, "nor when it comes again meanwhile")
	close(answer)
	require.Equal(t, client.ObjectKey{Namespace: "shop", Name: "price"}, client.ObjectKeyFromObject((<-queried.events).Object))
	require.Equal(t, v1alpha2.ReasonJobCreated, condition().Reason)
}
