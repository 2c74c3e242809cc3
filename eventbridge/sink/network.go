package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	idleTimeout = 4 * time.Second // less than the 5 s after which Node.js closes an idle connection
	maxIdle     = 4096            // connections kept to one address; the Subscriptions bound how many there are
)

// errNeverSink means that the name of a sink led to an address that never gets events.
var errNeverSink = errors.New("the address is never a sink")

// Network holds what all sinks of a process share: the connections that are kept, and the certificates that are trusted.
// No request waits for another's.
type Network struct {
	options Options
	roots   *x509.CertPool // nil for the system's
	problem error          // why the options cannot be used
	pods    *http.Transport
	hosts   *http.Transport
	dialer  *net.Dialer // to pods
	prober  *net.Dialer // to pods that may not be up yet

	requestBuffers, readers sync.Pool // of *requestBuffer and *reader
}

// NewNetwork connects as the options say. New returns the error of those that Validate refuses.
func NewNetwork(options Options) *Network {
	n := &Network{options: options, dialer: dialer(neverPod, options.DialTimeout), prober: dialer(neverPod, endpoint.ProbeTimeout)}
	n.roots, n.problem = trusted(options.CAFile)
	n.pods, n.hosts = n.transport(neverPod, ""), n.transport(neverHost, "")
	return n
}

// Close closes the connections that are kept. Sinks must not be used afterwards.
func (n *Network) Close() {
	n.pods.CloseIdleConnections()
	n.hosts.CloseIdleConnections()
}

// transport connects to the addresses that never does not refuse. The server is known by the host of the request, or by
// its name if there is one.
func (n *Network) transport(never func(netip.Addr) bool, name string) *http.Transport {
	dial := dialer(never, n.options.DialTimeout).DialContext
	return &http.Transport{
		DialContext:         httplimit.CountHeads(dial),
		DialTLSContext:      httplimit.CountHeads(n.secure(dial, name)),
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,

		MaxResponseHeaderBytes: httplimit.MaxHeadBytes,
	}
}

// dialer refuses addresses when they are dialled: what a name resolves to may change with each answer of its server.
func dialer(never func(netip.Addr) bool, timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		parsed, err := netip.ParseAddrPort(address)
		if err != nil || never(parsed.Addr()) {
			return fmt.Errorf("connect to %s: %w", address, errNeverSink)
		}
		return nil
	}}
}

// neverHost judges what a name leads to.
func neverHost(address netip.Addr) bool { return routing.NeverSink(address) }

// neverPod judges an address out of an EndpointSlice, where Kubernetes accepts no loopback address.
func neverPod(address netip.Addr) bool {
	return routing.NeverSink(address) && !address.Unmap().IsLoopback()
}

// trusted are the system's certificates and those of a file.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // crypto/tls then takes the system's by itself
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("--sink-ca: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--sink-ca: no certificate in %s", file)
	}
	return roots, nil
}

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
