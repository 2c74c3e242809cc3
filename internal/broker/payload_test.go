package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestASmallMaxPayloadIsLogged(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.WithMaxPayload(64<<10))
	var mu sync.Mutex
	var lines []string
	conn, err := Connect(t.Context(), Options{URL: server.URL(), Name: t.Name()}, funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	awaitConnected(t, conn)
	publisher := NewPublisher(conn, publisherOptions())
	logged := func(size string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, `"maxRequestSize"=`+size+` `) })
		}
	}
	publisher.ExpectEvents(32 << 10)
	publisher.ExpectEvents(64 << 10)
	require.Eventually(t, logged("65536"), testTimeout, moment)
	require.False(t, logged("32768")(), "those fit")
}
