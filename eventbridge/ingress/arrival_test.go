package ingress

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlineConn is the connection of a request, with the deadlines that a server's has.
type deadlineConn struct {
	http.ResponseWriter
	net.Conn
}

func (w deadlineConn) Write(p []byte) (int, error) { return w.ResponseWriter.Write(p) }

// arrive reads the body of a request that announces so many bytes, or none when negative.
func arrive(t *testing.T, b *budget, announced, limit int64) (publisher net.Conn, arrived <-chan arrivedBody) {
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
		b := &budget{limit: 10 << 20}
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
				b := &budget{limit: 10 << 20}
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
		b := &budget{limit: 30 << 10}
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
		b := &budget{limit: 16 << 10}
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
		b := &budget{limit: 20 << 10}
		require.True(t, b.acquire(12<<10), "of what is being stored")
		first, firstArrived := arrive(t, b, 8<<10, 1<<20)
		send(t, first, atOnce+1)
		synctest.Wait()
		require.ErrorIs(t, b.acquireFrom(12<<10, nil), errNoMemory)
		send(t, first, 4<<10-1)
		require.NoError(t, (<-firstArrived).err)
	})
}
