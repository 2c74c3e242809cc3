package sink

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestABusyPodIsPassedOver(t *testing.T) {
	t.Parallel()
	var held sync.WaitGroup
	held.Add(1)
	busy := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		held.Wait()
		w.WriteHeader(http.StatusNoContent)
	})
	idle := []*loopback.Sink{loopback.StartSink(t, nil), loopback.StartSink(t, nil)}
	endpoints := loopback.NewEndpoints(loopback.Ready(busy.Address()))
	s := run(t, endpoints, DefaultOptions())
	open(t, s)
	var first sync.WaitGroup
	first.Go(func() {
		_, err := s.Send(t.Context(), order("slow"))
		assert.NoError(t, err)
	})
	busy.Await(t, 1)

	s.pods.Apply([]routing.Endpoint{
		loopback.Ready(busy.Address()), loopback.Ready(idle[0].Address()), loopback.Ready(idle[1].Address()),
	})
	for range 20 {
		_, err := s.Send(t.Context(), order("fast"))
		require.NoError(t, err)
	}
	require.Len(t, busy.Requests(), 1)
	require.Len(t, idle[0].Requests(), 10)
	require.Len(t, idle[1].Requests(), 10)
	held.Done()
	first.Wait()
}

func TestAHangingSinkBlocksNoOther(t *testing.T) {
	t.Parallel()
	const many = 50
	var held sync.WaitGroup
	held.Add(1)
	hanging := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) { held.Wait() })
	quick := loopback.StartSink(t, nil)
	network := NewNetwork(DefaultOptions())
	t.Cleanup(network.Close)
	var sinks []*Sink
	for _, server := range []*loopback.Sink{hanging, quick} {
		s, err := New(Target{URL: sinkURL}, Deps{
			Network: network, Endpoints: loopback.NewEndpoints(loopback.Ready(server.Address())), Log: logr.Discard(),
		})
		require.NoError(t, err)
		open(t, start(t, s))
		sinks = append(sinks, s)
	}
	var waiting sync.WaitGroup
	for range many {
		waiting.Go(func() {
			_, err := sinks[0].Send(t.Context(), order("1"))
			assert.NoError(t, err)
		})
	}
	hanging.Await(t, many)
	for range many {
		_, err := sinks[1].Send(t.Context(), order("1"))
		require.NoError(t, err)
	}
	held.Done()
	waiting.Wait()
}

func TestOneConnectionIsEnoughForOneAtATime(t *testing.T) {
	t.Parallel()
	var accepted atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	s := run(t, loopback.NewEndpoints(loopback.Ready(server.Listener.Addr().String())), DefaultOptions())
	open(t, s)
	for range 50 {
		_, err := s.Send(t.Context(), order("1"))
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), accepted.Load())
}

func TestBodiesOfAnySizeAreAnswers(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{
		"none": 0, "a byte": 1, "an excerpt": excerptSize, "what is drained": drainSize, "more than is drained": drainSize + 1, "much": 5 << 20,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Ce-Id") == "fails" {
					w.WriteHeader(http.StatusTeapot)
				}
				_, _ = io.WriteString(w, strings.Repeat("x", size))
			})
			s := run(t, loopback.NewEndpoints(loopback.Ready(server.Address())), DefaultOptions())
			open(t, s)
			for id, status := range map[string]int{"works": http.StatusOK, "fails": http.StatusTeapot} {
				for range 2 {
					answer, err := s.Send(t.Context(), order(id))
					require.NoError(t, err)
					require.Equal(t, status, answer.Status)
				}
			}
		})
	}
}

func FuzzHeaderValues(f *testing.F) {
	for _, value := range []string{
		"plain", "two\r\nHost: lines", "\x00", " spaces ", "\t", "\x7f", "ümläut", "\xff\xfe", "a,b;c=\"d\"", "%0A", strings.Repeat("x", 8<<10),
	} {
		f.Add(value, value)
	}
	requests := make(chan loopback.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- loopback.Request{Host: r.Host, Header: r.Header, Body: body}
		w.WriteHeader(http.StatusNoContent)
	}))
	f.Cleanup(server.Close)
	s := run(f, loopback.NewEndpoints(loopback.Ready(server.Listener.Addr().String())), DefaultOptions())
	open(f, s)
	f.Fuzz(func(t *testing.T, subject, extension string) {
		if len(subject)+len(extension) > 100<<10 {
			t.Skip("servers take no header of that size")
		}
		ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order", Subject: subject, DataContentType: extension, Data: []byte("x")}
		ev.SetExtension("note", extension)
		ev.SetExtension("traceparent", subject)
		answer, err := s.Send(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, answer.Status)
		request := <-requests
		require.Equal(t, "1", request.ID())
		require.Equal(t, "price.shop.svc.cluster.local:8080", request.Host)
		require.Equal(t, "x", string(request.Body))
		for header, value := range map[string]string{"Ce-Subject": subject, "Ce-Note": extension, "Traceparent": subject} {
			if value == strings.TrimSpace(value) && strings.IndexFunc(value, isControl) < 0 {
				require.Equal(t, value, request.Header.Get(header))
			}
		}
	})
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
