package sink

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	// handshakeBytes is what a server can make a handshake take: crypto/tls reads 256 KiB of certificates into a buffer that doubles.
	handshakeBytes = 512 << 10
	// maxCertificates is how many bytes of them a connection keeps as long as it is open.
	maxCertificates = 32 << 10
)

// callKey is that of a call's replyReader, which has the budget, in its context: net/http connects on behalf of a call.
type callKey struct{}

// secure makes connections with TLS on those of dial. Each waits for the budget before its server may send certificates.
func (n *Network) secure(dial httplimit.DialFunc, name string) httplimit.DialFunc {
	config := &tls.Config{ServerName: name, RootCAs: n.roots, MinVersion: tls.VersionTLS12, VerifyConnection: fewCertificates}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config := config
		if name == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("connect to %s: %w", address, err)
			}
			config = config.Clone()
			config.ServerName = host
		}
		call, _ := ctx.Value(callKey{}).(replyReader)
		release, err := call.reserve(ctx, handshakeBytes)
		if err != nil {
			return nil, err
		}
		defer release()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(conn, config)
		shaking, cancel := context.WithTimeout(ctx, n.options.DialTimeout)
		defer cancel()
		if err := secured.HandshakeContext(shaking); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		return secured, nil
	}
}

// fewCertificates refuses a server that shows so many that its connections would be dear to keep.
func fewCertificates(state tls.ConnectionState) error {
	size := 0
	for _, certificate := range state.PeerCertificates {
		size += len(certificate.Raw)
	}
	if size > maxCertificates {
		return fmt.Errorf("the server shows more than %d bytes of certificates", maxCertificates)
	}
	return nil
}
