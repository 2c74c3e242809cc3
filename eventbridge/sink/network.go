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

// maxIdle bounds the idle connections to one address; the Subscriptions bound their total.
const maxIdle = 4096

// errNeverSink means that a sink's name resolved to an address that must not get events.
var errNeverSink = errors.New("the address is not allowed as a sink")

// Network holds what all sinks of a process share: idle connections and trusted certificates. No request waits for
// another one's.
type Network struct {
	options Options
	roots   *x509.CertPool // nil for the system's
	problem error          // error in the options
	pods    *http.Transport
	hosts   *http.Transport
	dialer  *net.Dialer // to pods
	prober  *net.Dialer // to pods that may not be up yet

	requestBuffers, readers sync.Pool // pools of *requestBuffer and *reader
}

// NewNetwork returns a Network. New returns the error of options that Validate refuses.
func NewNetwork(options Options) *Network {
	n := &Network{options: options, dialer: dialer(neverPod, options.DialTimeout), prober: dialer(neverPod, endpoint.ProbeTimeout)}
	n.roots, n.problem = trusted(options.CAFile)
	n.pods, n.hosts = n.transport(neverPod, ""), n.transport(neverHost, "")
	return n
}

// Close closes the idle connections. Sinks must not be used afterwards.
func (n *Network) Close() {
	n.pods.CloseIdleConnections()
	n.hosts.CloseIdleConnections()
}

// transport connects only to addresses that never does not refuse. The server certificate is checked against name, or
// against the request's host if name is empty.
func (n *Network) transport(never func(netip.Addr) bool, name string) *http.Transport {
	dial := dialer(never, n.options.DialTimeout).DialContext
	return &http.Transport{
		DialContext:         httplimit.CountHeads(dial),
		DialTLSContext:      httplimit.CountHeads(n.secure(dial, name)),
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     endpoint.IdleTimeout,
		DisableCompression:  true,

		MaxResponseHeaderBytes: httplimit.MaxHeadBytes,
	}
}

// dialer checks addresses when they are dialled, because a name may resolve differently each time.
func dialer(never func(netip.Addr) bool, timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		parsed, err := netip.ParseAddrPort(address)
		if err != nil || never(parsed.Addr()) {
			return fmt.Errorf("connect to %s: %w", address, errNeverSink)
		}
		return nil
	}}
}

// neverHost refuses addresses that a name may resolve to.
func neverHost(address netip.Addr) bool { return routing.NeverSink(address) }

// neverPod refuses addresses from an EndpointSlice, where Kubernetes accepts no loopback address.
func neverPod(address netip.Addr) bool {
	return routing.NeverSink(address) && !address.Unmap().IsLoopback()
}

// trusted returns the system's certificates and those of a file.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // crypto/tls then uses the system's certificates
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator chose the file
	if err != nil {
		return nil, fmt.Errorf("--sink-ca: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--sink-ca: %s contains no certificate", file)
	}
	return roots, nil
}

const (
	// handshakeBytes is the most memory that a server can make a handshake take: crypto/tls reads 256 KiB of
	// certificates into a buffer that doubles.
	handshakeBytes = 512 << 10
	// maxCertificates bounds the bytes of certificates that a connection holds while it is open.
	maxCertificates = 32 << 10
)

// callKey is the context key of a call's replyReader, which has the memory budget: net/http connects on behalf of a
// call.
type callKey struct{}

// secure returns a DialFunc that adds TLS to dial. It waits for memory before the server may send certificates.
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
			return nil, fmt.Errorf("TLS handshake with the sink: %w", err)
		}
		return secured, nil
	}
}

// fewCertificates refuses servers with so many certificates that idle connections would hold too much memory.
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
