package daemon

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines counts how often the deadline of reads is set.
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

func TestAReadGoesOnWhoseDeadlineIsLater(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		wanted []time.Time
		failed error
		want   bool
		set    []time.Time
	}{
		"later":              {[]time.Time{time.Unix(1, 0), later}, os.ErrDeadlineExceeded, true, []time.Time{time.Unix(1, 0), later}},
		"none any more":      {[]time.Time{time.Unix(1, 0), {}}, os.ErrDeadlineExceeded, true, []time.Time{time.Unix(1, 0), {}}},
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

// net/http ends the context of a connection with the first read that fails. Had it read on, all further requests would come to
// handlers whose clients seem to have gone.
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
