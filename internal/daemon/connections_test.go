package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"
)

// startServer serves pipes until the end of the test's bubble.
func startServer(t *testing.T, s Server) *pipes {
	t.Helper()
	listener := &pipes{opened: make(chan net.Conn), closed: make(chan struct{})}
	s.Name, s.Listener = "test", listener
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, s, testr.New(t)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Log(err) // evicted while the server waited for it
		}
	})
	return listener
}

// inTime is the time that pace allows a client before it counts as slow.
const inTime = 100 * time.Millisecond

const shortRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

func TestAFurtherClientEvictsTheConnectionThatWaitedLongest(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"for a request":         "",
		"for another request":   shortRequest,
		"for half a header":     "GET / HTTP/1.1\r\nHost",
		"for a body":            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{",
		"to read its answer":    "GET /large HTTP/1.1\r\nHost: h\r\n\r\n",
		"for a body, in chunks": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener := startServer(t, Server{MaxConnections: 3, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					answer := "done"
					if r.URL.Path == "/large" {
						answer = strings.Repeat("x", 1<<20)
					}
					_, _ = io.WriteString(w, answer)
				})})
				slow := make([]net.Conn, 3)
				for i := range slow {
					slow[i] = listener.open()
					_, err := io.WriteString(slow[i], sent)
					require.NoError(t, err)
					if sent == shortRequest {
						requireAnswer(t, slow[i])
					}
					time.Sleep(time.Millisecond)
				}
				time.Sleep(inTime)
				for i := range slow {
					synctest.Wait()
					quick := listener.open()
					_, err := io.WriteString(quick, shortRequest)
					require.NoError(t, err)
					requireAnswer(t, quick)
					_, err = io.Copy(io.Discard, slow[i])
					require.NoError(t, err, "it is closed")
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
}

func TestAClientThatIsBeingAnsweredIsNotEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		listener := startServer(t, Server{MaxConnections: 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			_, _ = io.WriteString(w, "done")
		})})
		busy := []net.Conn{listener.open(), listener.open()}
		for _, conn := range busy {
			_, err := io.WriteString(conn, shortRequest)
			require.NoError(t, err)
		}
		synctest.Wait()
		further := listener.open()
		_, err := io.Copy(io.Discard, further)
		require.NoError(t, err, "there is no place for it")
		close(release)
		for _, conn := range busy {
			requireAnswer(t, conn)
		}
	})
}

// The response takes long, and its client pauses before each part, as every client does.
func TestAClientThatReadsItsAnswerInTimeIsNotEvicted(t *testing.T) {
	t.Parallel()
	for pause, evicted := range map[time.Duration]bool{inTime / 2: false, 2 * inTime: true} {
		t.Run(pause.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener := startServer(t, Server{MaxConnections: 1, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
				})})
				conn := listener.open()
				time.Sleep(5 * time.Second) // does not count once it sends
				_, err := io.WriteString(conn, shortRequest)
				require.NoError(t, err)
				for range 10 {
					time.Sleep(pause)
					synctest.Wait()
					further := listener.open()
					synctest.Wait()
					_ = further.Close()
					if _, err = io.ReadFull(conn, make([]byte, 4<<10)); err != nil {
						break
					}
				}
				require.Equal(t, evicted, err != nil)
			})
		})
	}
}

func TestAClientThatSendsItsBodyInTimeIsNotEvicted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		piece   int
		evicted bool
	}{"in pieces that are large enough": {4 << 10, false}, "by the byte": {1, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener := startServer(t, Server{MaxConnections: 1, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
				})})
				conn := listener.open()
				time.Sleep(time.Second)
				_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
				require.NoError(t, err)
				for range 10 {
					time.Sleep(inTime / 2)
					further := listener.open()
					synctest.Wait()
					_ = further.Close()
					if _, err = conn.Write(make([]byte, tc.piece)); err != nil {
						break
					}
				}
				require.Equal(t, tc.evicted, err != nil)
				_ = conn.Close()
				time.Sleep(time.Second) // the time that net/http gives a client to read
			})
		})
	}
}

func requireAnswer(t *testing.T, conn net.Conn) {
	t.Helper()
	answer := make([]byte, 1024)
	n, err := conn.Read(answer)
	require.NoError(t, err)
	require.Contains(t, string(answer[:n]), "200 OK")
	require.Contains(t, string(answer[:n]), "done")
}

// An address is only compared with others.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr { return &net.UnixAddr{Name: f.address} }

func TestConnectionsOfTheAddressWithMostAreEvictedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newConnections(nil, &Server{MaxConnections: 10})
		add := func(address string) net.Conn {
			time.Sleep(time.Millisecond)
			ours, _ := net.Pipe()
			conn := all.add(from{ours, address})
			require.NotNil(t, conn)
			return conn
		}
		alone := add("10.0.0.1")
		for range 100 {
			add("10.0.0.2")
		}
		require.Equal(t, 10, all.places.Held())
		require.NoError(t, alone.Close())
		require.Equal(t, 9, all.places.Held(), "it was open")
	})
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := writesFail(t, func(http.ResponseWriter) error { return nil })
		require.LessOrEqual(t, took, defaultWriteTimeout)
	})
}

func TestAHandlersOwnWriteDeadlineCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const own = time.Minute
		took := writesFail(t, func(w http.ResponseWriter) error {
			return http.NewResponseController(w).SetWriteDeadline(time.Now().Add(own))
		})
		require.Equal(t, own, took)
	})
}

// writesFail returns the time after which a handler can no longer write to a client that does not read.
func writesFail(t *testing.T, begin func(http.ResponseWriter) error) time.Duration {
	t.Helper()
	failed := make(chan error, 1)
	listener := startServer(t, Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		err := begin(w)
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
		failed <- err
	})})
	conn := listener.open()
	began := time.Now()
	_, err := io.WriteString(conn, shortRequest)
	require.NoError(t, err)
	require.Error(t, <-failed)
	return time.Since(began)
}

// deadlines counts the calls that set the deadline of reads.
type deadlines struct {
	net.Conn

	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestAReadDeadlineIsSetOnlyWhenItComesEarlier(t *testing.T) {
	t.Parallel()
	conn, d := &deadlines{}, &readDeadline{}
	soon, later := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	past := time.Unix(1, 0)
	for _, at := range []time.Time{{}, later, soon, later, {}, soon, past, past} {
		require.NoError(t, d.set(conn, at))
	}
	require.Equal(t, []time.Time{{}, later, soon, past}, conn.set)
}

func TestReadWithALaterDeadlineContinues(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		wanted []time.Time
		failed error
		want   bool
		set    []time.Time
	}{
		"later":              {[]time.Time{time.Unix(1, 0), later}, os.ErrDeadlineExceeded, true, []time.Time{time.Unix(1, 0), later}},
		"removed":            {[]time.Time{time.Unix(1, 0), {}}, os.ErrDeadlineExceeded, true, []time.Time{time.Unix(1, 0), {}}},
		"passed":             {[]time.Time{time.Unix(1, 0)}, os.ErrDeadlineExceeded, false, []time.Time{time.Unix(1, 0)}},
		"for another reason": {[]time.Time{time.Unix(1, 0), later}, net.ErrClosed, false, []time.Time{time.Unix(1, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, d := &deadlines{}, &readDeadline{}
			for _, at := range tc.wanted {
				require.NoError(t, d.set(conn, at))
			}
			require.Equal(t, tc.want, d.extend(conn, tc.failed))
			require.Equal(t, tc.set, conn.set)
		})
	}
}

// net/http cancels the context of a connection at the first failed read. Had it continued to read, all further requests
// would be passed to handlers as if their clients had disconnected.
func TestAConnectionIsOverOnceAReadHasFailed(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		controller := http.NewResponseController(w)
		if r.Header.Get("Duplex") != "" {
			_ = controller.EnableFullDuplex()
		}
		_ = controller.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = io.ReadAll(r.Body)
		_ = controller.SetReadDeadline(time.Time{})
		w.Header().Set("Content-Length", "0")
		_ = controller.Flush()
	}
	plain, secure := serveTLS(t, handler, func(s *Server) { s.TLS = nil }), serveTLS(t, handler)
	for _, header := range []string{"", "Duplex: yes\r\n"} {
		insecure, err := new(net.Dialer).DialContext(t.Context(), "tcp", plain.address)
		require.NoError(t, err)
		for _, conn := range []net.Conn{insecure, secure.dial("http/1.1")} {
			requests.Store(0)
			_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\n"+header+"Content-Length: 100\r\n\r\n{")
			require.NoError(t, err)
			reader := bufio.NewReader(conn)
			answer, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			_, _ = io.WriteString(conn, strings.Repeat("x", 99)+"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			rest, _ := io.ReadAll(reader)
			require.Empty(t, string(rest))
			require.Equal(t, int64(1), requests.Load())
			_ = conn.Close()
		}
	}
}

// perConnection is the documented memory of a connection, on both ends here.
const perConnection = 64 << 10

// It is not parallel, because it measures the memory of the process.
func TestAConnectionTakesLittleMemory(t *testing.T) { //nolint:paralleltest // see above
	const clients = 200
	var short, names strings.Builder
	for i := range maxHeaderLines - 2 {
		fmt.Fprintf(&short, "h%x:\r\n", i)
		fmt.Fprintf(&names, "h%x:%s\r\n", i, strings.Repeat("x", 120))
	}
	const first = "GET / HTTP/1.1\r\nHost: h\r\n"
	for name, sent := range map[string]string{ //nolint:paralleltest // see above
		"without a request":          "",
		"in tiny header lines":       first + short.String(),
		"in header lines":            first + names.String(),
		"in one header line":         first + "Note: " + strings.Repeat("x", 19<<10),
		"while the handler works":    first + names.String() + "\r\n",
		"that sends no body":         strings.Replace(first, "GET", "POST", 1) + names.String() + "Content-Length: 1000000\r\n\r\n",
		"that does not stop sending": first + "\r\n" + strings.Repeat(first+names.String()+"\r\n", 4),
	} {
		t.Run(name, func(t *testing.T) {
			listener := listen(t)
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() {
				served <- Serve(ctx, Server{Name: "test", Listener: listener, MaxConnections: clients, Handler: http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						<-ctx.Done()
					})}, logr.Discard())
			}()
			before := memoryInUse()
			conns := make([]net.Conn, clients)
			for i := range conns {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
				require.NoError(t, err)
				conns[i] = conn
				_, err = io.WriteString(conn, sent)
				require.NoError(t, err)
			}
			time.Sleep(100 * time.Millisecond) // an early measurement only shows less
			each := (memoryInUse() - before) / clients
			t.Logf("%d KiB", each>>10)
			require.Less(t, each, int64(perConnection))
			for _, conn := range conns {
				require.NoError(t, conn.Close())
			}
			cancel()
			require.NoError(t, <-served)
		})
	}
}

func memoryInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse)
}
