package activator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
)

func named(namespace string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("f", i)}
}

func TestANamespaceAndACallerTakeNoMorePlacesOfWaitingRequestsThanTheyLeaveFree(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(i int) (types.NamespacedName, httplimit.Key){
		"a namespace": func(i int) (types.NamespacedName, httplimit.Key) {
			return named("hostile", i%5), httplimit.Key{Name: strconv.Itoa(i)}
		},
		"a caller": func(i int) (types.NamespacedName, httplimit.Key) {
			return named(fmt.Sprint("ns", i%3), 0), httplimit.Key{Name: "one"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting(256 * waitingCost)
			admitted := 0
			for i := range 1000 {
				if w.enter(of(i)) == nil {
					admitted++
				}
			}
			require.Equal(t, 128, admitted)
			require.Nil(t, w.enter(named("shop", 0), httplimit.Key{Name: "honest"}))
			require.EqualValues(t, 129, w.requests())
			w.leave(named("shop", 0), httplimit.Key{Name: "honest"})
			for i := range admitted {
				w.leave(of(i))
			}
			require.Zero(t, w.requests())
			require.Empty(t, w.woken)
			require.Nil(t, w.enter(of(0)))
		})
	}
}

func TestTheFunctionsThatAreWokenAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of    func(i int) (types.NamespacedName, httplimit.Key)
		woken int
		why   string
	}{
		"of a namespace": {
			func(i int) (types.NamespacedName, httplimit.Key) {
				return named("hostile", i), httplimit.Key{Name: strconv.Itoa(i)}
			},
			128, "as many Functions of its namespace are being woken as may be at a time",
		},
		"by a caller": {
			func(i int) (types.NamespacedName, httplimit.Key) {
				return named(fmt.Sprint("ns", i), i), httplimit.Key{Name: "one"}
			},
			32, "your address is waking as many Functions as it may at a time",
		},
		"by a proxy whose callers are not known": {
			func(i int) (types.NamespacedName, httplimit.Key) {
				return named(fmt.Sprint("ns", i), i), httplimit.Key{Name: "proxy", Unshared: true}
			}, 256, "as many Functions of its namespace are being woken as may be at a time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting(1024 * waitingCost)
			for i := range tc.woken {
				require.Nil(t, w.enter(tc.of(i)))
			}
			refused := w.enter(tc.of(tc.woken))
			require.NotNil(t, refused)
			require.Contains(t, refused.text, tc.why)
			require.Equal(t, overloaded, refused.outcome)
			require.Nil(t, w.enter(tc.of(0)), "that Function is being woken already")
			w.leave(tc.of(0))
			w.leave(tc.of(0))
			require.Nil(t, w.enter(tc.of(tc.woken)))
		})
	}
}

// theirPods are those of one Function; others never have any.
type theirPods struct {
	of        types.NamespacedName
	endpoints []routing.Endpoint
}

// Watch implements Endpoints.
func (p *theirPods) Watch(ctx context.Context, name types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	if name == p.of {
		apply(p.endpoints)
	}
	<-ctx.Done()
	return nil
}

func TestFunctionsThatNeverStartLeaveWakingToOtherNamespaces(t *testing.T) {
	t.Parallel()
	pod := httptest.NewServer(http.HandlerFunc(hello))
	t.Cleanup(pod.Close)
	options, table := DefaultOptions(), NewTable()
	options.AllowLoopback, options.MaxWaiting, options.MaxWaitingBytes = true, 100, 400*waitingCost
	all := New(Deps{
		Endpoints: &theirPods{price, []routing.Endpoint{{Address: pod.Listener.Addr().String(), Ready: true, Function: true}}},
		Functions: knownFunctions(func() Condition { return Condition{} }),
		Begin:     func(name types.NamespacedName) Request { return table.Begin(name) },
		Registry:  prometheus.NewRegistry(), Log: logr.Discard(),
	}, options)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = r.Header.Get("Test-Caller") + ":1"
		all.Serve(w, r, types.NamespacedName{Namespace: r.Host, Name: r.URL.Path[1:]}, Call{Wait: time.Hour})
	}))
	transport := &http.Transport{}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
		all.Close()
	})
	ask := func(ctx context.Context, namespace, function, caller string) (int, http.Header, string) {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/"+function, http.NoBody)
		request.Host = namespace
		request.Header.Set("Test-Caller", caller)
		answer, err := transport.RoundTrip(request)
		if err != nil {
			return 0, nil, err.Error()
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, answer.Header, string(text)
	}
	for i := range 500 {
		go func() { ask(ctx, "hostile", fmt.Sprint("f", i%5), fmt.Sprint("10.0.0.", i%250)) }()
	}
	require.Eventually(t, func() bool { return all.waiting.requests() == 200 }, time.Minute, time.Millisecond)

	status, header, text := ask(t.Context(), "hostile", "f9", "10.0.1.1")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Equal(t, activation.RefusedOverload, header.Get(activation.HeaderRefused))
	require.Equal(t, "Function hostile/f9 sleeps, and as many requests wait for Functions of its namespace as may\n", text)

	status, _, text = ask(t.Context(), price.Namespace, price.Name, "10.0.1.2")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "hello", text)
}
