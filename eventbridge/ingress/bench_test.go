package ingress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
)

// taking stores nothing.
type taking struct{ Publisher }

func (taking) Publish(context.Context, *cloudevent.Event) error { return nil }

// BenchmarkPublish is an event on a connection that stays, from the request to its answer.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{1 << 10, 60 << 10} {
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			served := make(chan error, 1)
			handler := New(Deps{
				Publisher: taking{}, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
			}, DefaultOptions())
			go func() {
				served <- daemon.Serve(ctx, daemon.Server{Name: "bench", Listener: listener, Handler: handler}, logr.Discard())
			}()
			conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", listener.Addr().String())
			require.NoError(b, err)
			answers := bufio.NewReader(conn)
			request := "POST /publish HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nCe-Specversion: 1.0\r\nCe-Id: 1\r\n" +
				"Ce-Source: shop\r\nCe-Type: order.received.v1\r\nCe-Time: 2026-01-02T03:04:05Z\r\n" +
				fmt.Sprintf("Content-Length: %d\r\n\r\n%q", size, strings.Repeat("x", size-2))
			b.ReportAllocs()
			for b.Loop() {
				_, err := io.WriteString(conn, request)
				require.NoError(b, err)
				answer, err := http.ReadResponse(answers, nil)
				require.NoError(b, err)
				require.NoError(b, answer.Body.Close())
				require.Equal(b, http.StatusNoContent, answer.StatusCode)
			}
			require.NoError(b, conn.Close())
			stop()
			require.NoError(b, <-served)
		})
	}
}
