package httpload

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const shop = "shop"

// pod serves as a runtime does until the test ends.
func pod(t *testing.T, handler http.HandlerFunc) routing.Endpoint {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return routing.Endpoint{Address: server.Listener.Addr().String(), Ready: true, Function: true}
}

// answering is a pod that answers each request with the text.
func answering(t *testing.T, text string) routing.Endpoint {
	t.Helper()
	return pod(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// podTimeout is what no answer takes, however slow the machine is.
const podTimeout = time.Minute

// asking is a Client for servers of this machine.
func asking(t *testing.T, answerTimeout time.Duration) *Pods {
	t.Helper()
	client := newClient(PodsOptions{AllowLoopback: true}, podTimeout, answerTimeout)
	t.Cleanup(client.Close)
	return client
}

func unready(e routing.Endpoint) routing.Endpoint {
	e.Ready = false
	return e
}

func refusing(t *testing.T) routing.Endpoint {
	t.Helper()
	return routing.Endpoint{Address: net.JoinHostPort(loopback.Host, strconv.Itoa(loopback.Reserve(t))), Ready: true}
}

func TestPodsAreAskedForTheirLoad(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	one := pod(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.Method + " " + r.URL.Path)
		_, _ = io.WriteString(w, `{"requests":12,"running":3,"viaGateway":1,"viaEventbridge":2}`)
	})
	two := unready(answering(t, `{"requests":4}`))
	terminating := answering(t, "nonsense")
	terminating.Terminating = true

	loads, err := asking(t, podTimeout).Loads(t.Context(), shop, []routing.Endpoint{one, two, terminating})
	require.NoError(t, err)
	require.Equal(t, map[string]activation.PodLoad{
		one.Address: {Requests: 12, Running: 3, ViaGateway: 1, ViaEventbridge: 2},
		two.Address: {Requests: 4},
	}, loads)
	require.Equal(t, "GET /.well-known/rouse/load", path.Load())
}

func TestAPodThatCannotBeAskedIsAnErrorAndNeverZero(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	elsewhere := pod(t, func(w http.ResponseWriter, _ *http.Request) {
		followed.Store(true)
		_, _ = io.WriteString(w, `{}`)
	})
	const soon = 100 * time.Millisecond
	for name, tc := range map[string]struct {
		within  time.Duration
		want    string
		handler http.HandlerFunc
	}{
		"it does not answer": {soon, "did not respond in time", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}},
		"it sends its answer byte by byte": {soon, "did not respond in time", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
		}},
		"it sends without an end": {podTimeout, "returned a load report that is too large", func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; _, err = io.WriteString(w, strings.Repeat(" ", 1<<16)) {
			}
		}},
		"it sends a header without an end": {podTimeout, "did not respond with valid HTTP", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Secret", strings.Repeat("secret", 10_000))
		}},
		"it sends nonsense": {podTimeout, "returned an invalid load report", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "secret")
		}},
		"it speaks no HTTP": {podTimeout, "did not respond with valid HTTP", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "secret\r\n\r\n")
				_ = conn.Close()
			}
		}},
		"it says that there is no such path": {podTimeout, "returned status 404", http.NotFound},
		"it leads elsewhere": {podTimeout, "returned status 302", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+elsewhere.Address, http.StatusFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := pod(t, tc.handler)
			for _, endpoint := range []routing.Endpoint{broken, unready(broken)} {
				loads, err := asking(t, tc.within).Loads(t.Context(), shop, []routing.Endpoint{endpoint})
				require.EqualError(t, err, "pod "+broken.Address+" "+tc.want)
				require.Nil(t, loads)
			}
		})
	}
	t.Cleanup(func() { require.False(t, followed.Load(), "a redirect was followed") })
}

// KEDA gets its answer within a second.
func TestPodsAreWaitedForNoLongerThanHalfASecond(t *testing.T) {
	t.Parallel()
	client := NewPods(PodsOptions{})
	require.Equal(t, 500*time.Millisecond, client.answerTimeout)
	require.Less(t, podDialTimeout, client.answerTimeout)
}

func TestAPodThatAcceptsNoConnectionHasNoCallsUnlessItIsReady(t *testing.T) {
	t.Parallel()
	closed, fine := refusing(t), answering(t, `{"running":1}`)
	loads, err := asking(t, podTimeout).Loads(t.Context(), shop, []routing.Endpoint{unready(closed), fine})
	require.NoError(t, err)
	require.Equal(t, map[string]activation.PodLoad{fine.Address: {Running: 1}}, loads)

	_, err = asking(t, podTimeout).Loads(t.Context(), shop, []routing.Endpoint{closed, fine})
	require.EqualError(t, err, "pod "+closed.Address+" refused the connection")
}

func TestForgedAddressesOfPodsAreNotDialled(t *testing.T) {
	t.Parallel()
	fine := answering(t, `{}`)
	_, port, err := net.SplitHostPort(fine.Address)
	require.NoError(t, err)
	strict := newClient(PodsOptions{}, podTimeout, podTimeout)
	t.Cleanup(strict.Close)
	for _, address := range []string{
		fine.Address, "169.254.169.254:80", "[fe80::1]:80", "[fd00:ec2::254]:80", "[::ffff:169.254.169.254]:80", "0.0.0.0:" + port,
	} {
		_, err := strict.Loads(t.Context(), shop, []routing.Endpoint{{Address: address, Ready: true}})
		require.EqualError(t, err, "pod "+address+" refused the connection")
	}
	for _, address := range []string{"localhost:" + port, "metadata.google.internal:80", "10.0.0.1", ""} {
		_, err := asking(t, podTimeout).Loads(t.Context(), shop, []routing.Endpoint{{Address: address, Ready: true}})
		require.EqualError(t, err, "pod "+address+" has an invalid IP address")
	}
}

func TestAFunctionHasAThousandPodsAtMost(t *testing.T) {
	t.Parallel()
	endpoints := make([]routing.Endpoint, mostPods+1)
	_, err := asking(t, podTimeout).Loads(t.Context(), shop, endpoints)
	require.EqualError(t, err, "more than 1000 pods")
}

// crowd is one server under many addresses, which counts how many requests it has at a time.
type crowd struct {
	now, most atomic.Int64

	endpoints []routing.Endpoint
	enter     chan struct{} // one for each request that is being answered
	leave     chan struct{}
}

func newCrowd(t *testing.T, size int) *crowd {
	t.Helper()
	c := &crowd{enter: make(chan struct{}, size), leave: make(chan struct{})}
	for range size {
		c.endpoints = append(c.endpoints, pod(t, func(w http.ResponseWriter, _ *http.Request) {
			now := c.now.Add(1)
			defer c.now.Add(-1)
			for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
			}
			c.enter <- struct{}{}
			<-c.leave
			_, _ = io.WriteString(w, `{}`)
		}))
	}
	return c
}

func TestPodsOfANamespaceThatAreAskedAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	client := asking(t, podTimeout)
	const functions, size = 4, atATime
	done := make(chan error, functions)
	c := newCrowd(t, functions*size)
	for i := range functions {
		go func() {
			_, err := client.Loads(t.Context(), shop, c.endpoints[i*size:(i+1)*size])
			done <- err
		}()
	}
	for range perNamespace {
		<-c.enter
	}
	// The others have to wait, but not those of another namespace.
	_, err := client.Loads(t.Context(), "bank", []routing.Endpoint{answering(t, `{}`)})
	require.NoError(t, err)
	close(c.leave)
	for range functions {
		require.NoError(t, <-done)
	}
	require.Equal(t, int64(perNamespace), c.most.Load())
	require.Empty(t, client.namespaces.inUse)
}

func TestPodsAreAskedOnConnectionsThatAreKept(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{}`) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	client := asking(t, podTimeout)
	for range 5 {
		_, err := client.Loads(t.Context(), shop, []routing.Endpoint{{Address: server.Listener.Addr().String(), Ready: true}})
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), connections.Load())
}

func TestACallerThatGivesUpGetsNoLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stalled := pod(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := asking(t, podTimeout).Loads(ctx, shop, []routing.Endpoint{stalled})
	require.EqualError(t, err, "pod "+stalled.Address+" did not respond in time")
}
