package ingress

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// deadlineConn is the connection of a request, with the deadlines that a server's has.
type deadlineConn struct {
	http.ResponseWriter
	net.Conn
}

func (w deadlineConn) Write(p []byte) (int, error) { return w.ResponseWriter.Write(p) }

// arrive reads the body of a request that announces a length, or none when negative.
func arrive(t *testing.T, b *bodyMemory, announced, limit int64) (publisher net.Conn, arrived <-chan arrivedBody) {
	t.Helper()
	publisher, server := net.Pipe()
	t.Cleanup(func() { _, _ = publisher.Close(), server.Close() })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, publishPath, server)
	require.NoError(t, err)
	r.ContentLength = announced
	done := make(chan arrivedBody, 1)
	go func() {
		body, held, err := b.read(deadlineConn{Conn: server}, r, limit)
		b.release(held)
		done <- arrivedBody{string(body), err}
	}()
	return publisher, done
}

type arrivedBody struct {
	body string
	err  error
}

func send(t *testing.T, publisher net.Conn, bytes int) {
	t.Helper()
	_, err := io.WriteString(publisher, strings.Repeat("x", bytes))
	require.NoError(t, err)
}

func TestABodyCountsAsItArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bodyMemory{limit: 10 << 20}
		publisher, arrived := arrive(t, b, 1<<20, 1<<20)
		synctest.Wait()
		require.Zero(t, b.used.Load(), "announced alone")
		for sent := 0; sent < 1<<20; {
			send(t, publisher, 1<<10)
			sent += 1 << 10
			synctest.Wait()
			if sent < 1<<20 {
				require.LessOrEqual(t, b.used.Load(), int64(max(growth*sent, atOnce)))
			}
		}
		body := <-arrived
		require.NoError(t, body.err)
		require.Len(t, body.body, 1<<20)
		require.Zero(t, b.used.Load())
	})
}

func TestABodyThatComesTooSlowlyIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		perSecond, atLeast, atMost int // seconds
		want                       error
	}{
		"fast enough":              {perSecond: 2 * slowestRate, atLeast: 15, atMost: 17},
		"as slow as may be":        {perSecond: slowestRate, atLeast: 31, atMost: 33},
		"a little at a time":       {perSecond: 1 << 10, atLeast: 10, atMost: 11, want: errTooSlow},
		"a byte at a time":         {perSecond: 1, atLeast: 10, atMost: 11, want: errTooSlow},
		"all but a little at once": {perSecond: 1<<20 - 1, atLeast: 41, atMost: 43, want: errTooSlow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bodyMemory{limit: 10 << 20}
				publisher, arrived := arrive(t, b, 1<<20, 1<<20)
				began := time.Now()
				go func() {
					for left := 1 << 20; left > 0; left -= tc.perSecond {
						if _, err := io.WriteString(publisher, strings.Repeat("x", min(left, tc.perSecond))); err != nil {
							return
						}
						if left > tc.perSecond && left-tc.perSecond < 2 {
							return // the last byte never comes
						}
						time.Sleep(time.Second)
					}
				}()
				body := <-arrived
				require.ErrorIs(t, body.err, tc.want)
				require.GreaterOrEqual(t, time.Since(began), time.Duration(tc.atLeast)*time.Second)
				require.LessOrEqual(t, time.Since(began), time.Duration(tc.atMost)*time.Second)
				require.Zero(t, b.used.Load())
				_ = publisher.Close()
				time.Sleep(2 * time.Second) // until the publisher has noticed
			})
		})
	}
}

func TestOldestArrivingBodiesAreEvictedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bodyMemory{limit: 30 << 10}
		first, firstArrived := arrive(t, b, 16<<10, 1<<20)
		send(t, first, atOnce+1) // from where on it takes all of it
		time.Sleep(time.Second)
		second, secondArrived := arrive(t, b, 8<<10, 1<<20)
		send(t, second, atOnce+1)
		synctest.Wait()
		require.Equal(t, int64(24<<10), b.used.Load())

		third, thirdArrived := arrive(t, b, 8<<10, 1<<20)
		send(t, third, 8<<10)
		require.NoError(t, (<-thirdArrived).err, "a request that comes at once is read")
		require.ErrorIs(t, (<-firstArrived).err, errTooSlow)
		send(t, second, 4<<10-1)
		require.NoError(t, (<-secondArrived).err, "the budget had enough for it")
		require.Zero(t, b.used.Load())
	})
}

func TestAnArrivingBodyDoesNotEvictYoungerOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bodyMemory{limit: 16 << 10}
		first, firstArrived := arrive(t, b, 60<<10, 1<<20)
		send(t, first, 1)
		synctest.Wait()
		second, secondArrived := arrive(t, b, 8<<10, 1<<20)
		send(t, second, atOnce+1)
		synctest.Wait()
		go func() { _, _ = io.WriteString(first, strings.Repeat("x", 8<<10)) }()
		require.ErrorIs(t, (<-firstArrived).err, errNoMemory)
		send(t, second, 4<<10-1)
		require.NoError(t, (<-secondArrived).err)
	})
}

func TestNoBodyIsEvictedForOneThatCannotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bodyMemory{limit: 20 << 10}
		require.True(t, b.acquire(12<<10), "of what is being stored")
		first, firstArrived := arrive(t, b, 8<<10, 1<<20)
		send(t, first, atOnce+1)
		synctest.Wait()
		require.ErrorIs(t, b.acquireFrom(12<<10, nil), errNoMemory)
		send(t, first, 4<<10-1)
		require.NoError(t, (<-firstArrived).err)
	})
}

// holding stores an event only when it is released.
type holding struct {
	fakePublisher
	arrived, release chan struct{}
}

func (h *holding) Publish(ctx context.Context, ev *cloudevent.Event) error {
	h.arrived <- struct{}{}
	<-h.release
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.fakePublisher.Publish(ctx, ev)
}

func TestRequestsBeyondTheMemoryBudgetGet429(t *testing.T) {
	t.Parallel()
	publisher := &holding{arrived: make(chan struct{}), release: make(chan struct{})}
	url, registry := serve(t, publisher, func(o *Options) { o.MaxRequestSize, o.MaxBatchSize, o.MaxBytesInFlight = 100, 100, 100 })
	inFlight := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "rouse_eventbridge_publish_bytes_in_flight" {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	first := begin(t, url, `"`+strings.Repeat("x", 58)+`"`)
	<-publisher.arrived
	require.InDelta(t, 60, inFlight(), 0)

	status, header, body := request{header: binary(nil), body: `"` + strings.Repeat("x", 48) + `"`}.send(t, url)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Equal(t, "too many bytes of other requests are being stored\n", body)
	status, _, _ = batchOf(member("1")).send(t, url)
	require.Equal(t, http.StatusTooManyRequests, status)
	status, header, body = request{path: legacyURI, body: `"` + strings.Repeat("x", 48) + `"`}.send(t, url)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.JSONEq(t, `{"status":429,"message":"too many bytes of other requests are being stored"}`, body)

	second := begin(t, url, `"fits"`)
	<-publisher.arrived
	require.InDelta(t, 66, inFlight(), 0)
	close(publisher.release)
	require.Equal(t, http.StatusNoContent, <-first)
	require.Equal(t, http.StatusNoContent, <-second)
	require.Eventually(t, func() bool { return inFlight() == 0 }, timeout, moment)
}

// begin sends an event and hands out the status of its answer later, 0 without one.
func begin(t *testing.T, url, body string) <-chan int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+publishPath, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range binary(nil) {
		req.Header.Set(name, value)
	}
	status := make(chan int, 1)
	go func() {
		defer close(status)
		if resp, err := loopback.Default.Do(req); err == nil {
			_ = resp.Body.Close()
			status <- resp.StatusCode
		}
	}()
	return status
}

const (
	timeout = time.Minute
	moment  = 5 * time.Millisecond
)

func TestAPublisherThatIsGoneStillCountsUntilItsEventIsStored(t *testing.T) {
	t.Parallel()
	publisher := &holding{arrived: make(chan struct{}), release: make(chan struct{})}
	h := newHandler(Deps{
		Publisher: publisher, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
	}, DefaultOptions())
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, publishPath, strings.NewReader("{}"))
	for name, value := range binary(nil) {
		r.Header.Set(name, value)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.publish(httptest.NewRecorder(), r)
	}()
	<-publisher.arrived
	cancel()
	require.Equal(t, int64(2), h.memory.used.Load())
	close(publisher.release)
	<-done
	require.Zero(t, h.memory.used.Load())
	require.Len(t, publisher.events, 1)
}

func TestABodyReleasesItsMemoryBudget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		length   int64
		body     io.Reader
		taken    int64
		wantErr  error
		wantHeld int64
		wantBody string
	}{
		"announced":                            {length: 4, body: strings.NewReader("abcd"), wantHeld: 4, wantBody: "abcd"},
		"empty":                                {length: 0, body: strings.NewReader("")},
		"announced as nothing":                 {length: 0, body: strings.NewReader("abcd")},
		"announced and too large":              {length: 11, body: strings.NewReader("abcdefghijk"), wantErr: errTooLarge},
		"announced and cut short":              {length: 4, body: strings.NewReader("abc"), wantErr: errCutShort, wantHeld: 4},
		"announced and not there at all":       {length: 4, body: strings.NewReader(""), wantErr: errCutShort, wantHeld: 4},
		"announced and in pieces":              {length: 4, body: iotest.OneByteReader(strings.NewReader("abcd")), wantHeld: 4, wantBody: "abcd"},
		"not announced":                        {length: -1, body: strings.NewReader("abcd"), wantHeld: 11, wantBody: "abcd"},
		"not announced and in pieces":          {length: -1, body: iotest.OneByteReader(strings.NewReader("abcd")), wantHeld: 11, wantBody: "abcd"},
		"not announced and as large as can be": {length: -1, body: strings.NewReader("abcdefghij"), wantHeld: 11, wantBody: "abcdefghij"},
		"not announced and too large":          {length: -1, body: strings.NewReader("abcdefghijk"), wantErr: errTooLarge, wantHeld: 11},
		"announced, when the budget is used":   {length: 4, body: strings.NewReader("abcd"), taken: 17, wantErr: errNoMemory},
		"not announced, when the largest exceeds the budget": {
			length: -1, body: strings.NewReader("abcd"), taken: 11, wantErr: errNoMemory,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bodyMemory{limit: 20}
			b.used.Store(tc.taken)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, publishPath, tc.body)
			r.ContentLength = tc.length
			body, held, err := b.read(httptest.NewRecorder(), r, 10)
			require.Equal(t, tc.wantHeld, held)
			require.Equal(t, tc.taken+held, b.used.Load())
			require.Zero(t, b.arriving.Len())
			if tc.wantErr != nil {
				require.ErrorIs(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.wantBody, string(body))
		})
	}
}
