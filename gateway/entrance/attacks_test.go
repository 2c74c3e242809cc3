package entrance

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/gateway/forward"
)

// Each is sent with a second request behind it, which an HTTP server before or behind this one might see where this one does not.
func TestRequestsThatServersReadDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	const hidden = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"
	var hiddenSeen atomic.Int64
	f := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hidden" {
			hiddenSeen.Add(1)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	for name, sent := range map[string]string{
		"two lengths":                      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 35\r\n\r\n",
		"two lengths in one line":          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0, 35\r\n\r\n",
		"a length with a sign":             "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +0\r\n\r\n",
		"a length that is negative":        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
		"a length in hexadecimal":          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x0\r\n\r\n",
		"an unknown transfer encoding":     "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two transfer encodings":           "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"a list of transfer encodings":     "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"a length beside chunks":           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks beside a length":           "POST / HTTP/1.1\r\nHost: h\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
		"a space before the colon":         "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 35\r\n\r\n",
		"a name that is none":              "POST / HTTP/1.1\r\nHost: h\r\nContent-Length\x00: 35\r\n\r\n",
		"a header line that goes on":       "POST / HTTP/1.1\r\n Content-Length: 35\r\nHost: h\r\n\r\n",
		"a carriage return in a value":     "POST / HTTP/1.1\r\nHost: h\r\nNote: a\rContent-Length: 35\r\n\r\n",
		"a zero in a value":                "POST / HTTP/1.1\r\nHost: h\r\nNote: a\x00b\r\n\r\n",
		"no host":                          "GET / HTTP/1.1\r\n\r\n",
		"two hosts":                        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"a host that is none":              "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"a space in the path":              "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
		"a version that is none":           "GET / HTTP/1.x\r\nHost: h\r\n\r\n",
		"a method that is none":            "GE(T / HTTP/1.1\r\nHost: h\r\n\r\n",
		"the preface of HTTP/2":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a chunk whose size is none":       "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n0\r\n\r\n",
		"a chunk with a sign":              "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
		"a chunk that is too large":        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n",
		"a chunk longer than its size":     "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
		"a chunk that ends in bare LF":     "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
		"an extension with a bare LF":      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nx\r\n0\r\n\r\n",
		"a chunk without an end":           "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0", 5000) + "\r\n\r\n",
		"a header that is too large":       "GET / HTTP/1.1\r\nHost: h\r\nNote: " + strings.Repeat("x", 21<<10) + "\r\n\r\n",
		"a header of too many lines":       "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:\r\n", 127) + "\r\n",
		"a request line that is too large": "GET /" + strings.Repeat("x", 21<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		for _, conn := range []net.Conn{f.dial(), f.dialTLS("http/1.1")} {
			_, err := io.WriteString(conn, sent+hidden)
			require.NoError(t, err)
			reader := bufio.NewReader(conn)
			answer, err := http.ReadResponse(reader, nil)
			require.NoError(t, err, name)
			require.GreaterOrEqual(t, answer.StatusCode, 400, name)
			require.Less(t, answer.StatusCode, 506, name)
			_, _ = io.Copy(io.Discard, answer.Body)
			require.NoError(t, answer.Body.Close())
			_, err = reader.ReadByte()
			require.Error(t, err, "%s: the connection is over", name)
		}
	}
	require.Zero(t, hiddenSeen.Load())
}

func TestABodyThatDoesNotComeIsCutOff(t *testing.T) {
	t.Parallel()
	for name, wanted := range map[string]bool{"and that is read": true, "and that nobody wants": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				if wanted {
					_, err := io.ReadAll(r.Body)
					failed <- err
				}
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as handlers do that wait for a backend
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, strings.Repeat("x", 8<<10)) // before which the server reads on
			}, func(o *Options) { o.BodyTimeout, o.ReadTimeout = 50*time.Millisecond, 50*time.Millisecond })
			for _, conn := range []net.Conn{f.dial(), f.dialTLS("http/1.1")} {
				_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{")
				require.NoError(t, err)
				if wanted {
					require.ErrorContains(t, <-failed, "timeout")
				}
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusForbidden, answer.StatusCode)
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.Len(t, text, 8<<10)
				require.NoError(t, answer.Body.Close())
				_, _ = io.Copy(io.Discard, conn) // it ends
			}
			require.Eventually(t, func() bool { return f.entrance.requests.Held() == 0 }, time.Minute, time.Millisecond)
		})
	}
}

func TestABodyThatKeepsComingMayTakeItsTime(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				length, _ := io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, strconv.FormatInt(length, 10))
			}, func(o *Options) { o.BodyTimeout = 8 * time.Second })
			const writes = 5
			reader, writer := io.Pipe()
			go func() {
				for range writes {
					_, _ = writer.Write(make([]byte, 4*forward.LeastRate))
					time.Sleep(2 * time.Second) // together longer than the limit for silence
				}
				_ = writer.Close()
			}()
			request := f.request("https", "/")
			request.Method, request.Body, request.ContentLength = http.MethodPost, reader, -1
			require.Equal(t, strconv.Itoa(writes*4*forward.LeastRate), f.text(request, http2))
		})
	}
}

func TestABodyOfAByteNowAndThenIsCutOff(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			f := start(t, func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				failed <- err
			}, func(o *Options) { o.BodyTimeout = 300 * time.Millisecond })
			reader, writer := io.Pipe()
			request := f.request("https", "/")
			request.Method, request.Body, request.ContentLength = http.MethodPost, reader, -1
			transport := f.transport(http2)
			var sending sync.WaitGroup
			sending.Go(func() {
				if answer, err := transport.RoundTrip(request); err == nil {
					_ = answer.Body.Close()
				}
			})
			sending.Go(func() {
				for _, err := writer.Write([]byte("x")); err == nil; _, err = writer.Write([]byte("x")) {
					time.Sleep(10 * time.Millisecond)
				}
			})
			require.ErrorIs(t, <-failed, os.ErrDeadlineExceeded)
			require.NoError(t, reader.Close())
			sending.Wait()
		})
	}
}

func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(f *fixture) net.Conn{
		"HTTP": func(f *fixture) net.Conn {
			conn := f.dial()
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			require.NoError(f.t, err)
			return conn
		},
		"HTTP/2": func(f *fixture) net.Conn {
			conn := f.dialTLS("h2")
			_, err := conn.Write(append(preface(), headersFrame(1)...))
			require.NoError(f.t, err)
			return conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := make(chan error, 1)
			f := start(t, func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for err == nil {
					_, err = io.WriteString(w, strings.Repeat("x", 64<<10))
				}
				failed <- err
			}, func(o *Options) { o.ReadTimeout = 50 * time.Millisecond })
			conn := begin(f)
			require.Error(t, <-failed)
			require.NoError(t, conn.Close())
		})
	}
}

// preface begins HTTP/2.
func preface() []byte {
	return append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(0x4, 0, 0, nil)...)
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	header := make([]byte, 9, 9+len(payload))
	binary.BigEndian.PutUint32(header, uint32(len(payload))<<8|uint32(kind))
	header[4] = flags
	binary.BigEndian.PutUint32(header[5:], stream)
	return append(header, payload...)
}

// headersFrame is GET https://h/ without a body.
func headersFrame(stream uint32) []byte {
	return frame(0x1, 0x5, stream, []byte{0x82, 0x87, 0x84, 0x41, 1, 'h'})
}

// Rapid reset, CVE-2023-44487.
func TestStreamsThatAreResetStartNoMoreHandlersThanOthers(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	release := make(chan struct{})
	f := start(t, func(http.ResponseWriter, *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		for {
			if was := most.Load(); now <= was || most.CompareAndSwap(was, now) {
				break
			}
		}
		<-release
	})
	conn := f.dialTLS("h2")
	sent := preface()
	for stream := uint32(1); stream < 4000; stream += 2 {
		sent = append(sent, headersFrame(stream)...)
		sent = append(sent, frame(0x3, 0, stream, []byte{0, 0, 0, 8})...)
	}
	go func() { _, _ = conn.Write(sent) }()
	_, err := io.Copy(io.Discard, conn) // the server ends the connection
	if err != nil {
		require.NotErrorIs(t, err, net.ErrClosed)
	}
	require.LessOrEqual(t, most.Load(), int64(100))
	close(release)
	require.Equal(t, "h2", conn.(*tls.Conn).ConnectionState().NegotiatedProtocol)
}

func TestAHeaderOfHTTP2WithoutAnEndIsNotCollected(t *testing.T) {
	t.Parallel()
	f := start(t, protocol)
	conn := f.dialTLS("h2")
	field := append([]byte{0x00, 1, 'a', 0x7f, 0x81, 0x07}, []byte(strings.Repeat("x", 256))...)
	sent := append(preface(), frame(0x1, 0x1, 1, []byte{0x82, 0x87, 0x84, 0x41, 1, 'h'})...)
	for range 2000 { // half a MiB of CONTINUATION
		sent = append(sent, frame(0x9, 0, 1, field)...)
	}
	go func() { _, _ = conn.Write(sent) }()
	_, err := io.Copy(io.Discard, conn)
	if err != nil {
		require.NotErrorIs(t, err, net.ErrClosed)
	}
}
