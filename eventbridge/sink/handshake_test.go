package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// A server may send a quarter of a mebibyte of certificates, and not end.
func TestTLSHandshakesWaitForTheMemoryBudget(t *testing.T) {
	t.Parallel()
	const calls, atATime = 12, 3
	memory := fair.NewBudget(2*atATime*handshakeBytes, 0)
	var most atomic.Int64
	address := listen(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		most.Store(max(most.Load(), memory.Used()))
		_, _ = io.Copy(io.Discard, conn) // until the client has waited long enough
	})
	options := DefaultOptions()
	options.DialTimeout = time.Second
	network := NewNetwork(options)
	t.Cleanup(network.Close)
	s, err := New(Target{URL: "https://price.shop/in"}, Deps{
		Network: network, Endpoints: loopback.NewEndpoints(loopback.Ready(address)), Budget: memory.Share("shop"), Log: logr.Discard(),
	})
	require.NoError(t, err)
	open(t, start(t, s))
	var sending sync.WaitGroup
	for range calls {
		sending.Go(func() {
			_, err := s.Send(t.Context(), order("1"))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	sending.Wait()
	require.LessOrEqual(t, most.Load(), int64(atATime*handshakeBytes), "what one namespace may take")
	require.Positive(t, most.Load())
	require.Zero(t, memory.Used())
}

func TestAServerThatShowsTooManyCertificatesIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	few, many := &x509.Certificate{Raw: make([]byte, maxCertificates/2)}, &x509.Certificate{Raw: make([]byte, maxCertificates)}
	require.NoError(t, fewCertificates(tls.ConnectionState{PeerCertificates: []*x509.Certificate{few, few}}))
	require.ErrorContains(t, fewCertificates(tls.ConnectionState{PeerCertificates: []*x509.Certificate{few, many}}), "certificates")
}
