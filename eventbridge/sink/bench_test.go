package sink

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// BenchmarkSend compares a delivery with the POST of the same bytes and headers by a bare client. The server's part is in
// both; cpu-us/op tells them apart better than the time does.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	network := NewNetwork(DefaultOptions())
	defer network.Close()
	s, err := New(Target{URL: sinkURL}, Deps{
		Network: network, Endpoints: loopback.NewEndpoints(loopback.Ready(server.Listener.Addr().String())), Log: logr.Discard(),
	})
	require.NoError(b, err)
	open(b, start(b, s))
	ev := order("1")
	ev.Data = bytes.Repeat([]byte("x"), 1<<10)

	for _, inFlight := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("sink/%d", inFlight), func(b *testing.B) {
			deliver(b, inFlight, func() error {
				_, err := s.Send(b.Context(), ev)
				return err
			})
		})
		b.Run(fmt.Sprintf("bare/%d", inFlight), func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}
			defer client.CloseIdleConnections()
			deliver(b, inFlight, func() error { return bare(b, client, server.URL, ev) })
		})
	}
}

func bare(b *testing.B, client *http.Client, url string, ev *cloudevent.Event) error {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(ev.Data))
	if err != nil {
		return err
	}
	ev.SetHeader(req.Header)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// deliver spreads b.N calls over so many goroutines.
func deliver(b *testing.B, inFlight int, send func() error) {
	b.Helper()
	b.ReportAllocs()
	calls := make(chan struct{}, inFlight)
	var senders sync.WaitGroup
	for range inFlight {
		senders.Go(func() {
			for range calls {
				if err := send(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	before := cpu(b)
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	senders.Wait()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkIdle measures what a sink costs that has one pod and nothing to do.
func BenchmarkIdle(b *testing.B) {
	network := NewNetwork(DefaultOptions())
	defer network.Close()
	endpoints := loopback.NewEndpoints(loopback.Ready("10.0.0.1:8080"))
	before, goroutines := memory(), runtime.NumGoroutine()
	for range b.N {
		s, err := New(Target{URL: sinkURL}, Deps{Network: network, Endpoints: endpoints, Log: logr.Discard()})
		require.NoError(b, err)
		open(b, start(b, s))
	}
	after := memory()
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-B/op")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(b.N), "stack-B/op")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(b.N), "goroutines/op")
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
