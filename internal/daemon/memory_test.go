package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// perConnection is what the documentation says that a connection may take, on both of its ends here.
const perConnection = 64 << 10

// It is not parallel, because it looks at the memory of the process.
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
			time.Sleep(100 * time.Millisecond) // too early, it would only see less
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
