package externalmetrics

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
)

// Options configures the server.
type Options struct {
	// Address is where it listens; empty: there is no server.
	Address string
	// CertFile and KeyFile hold its certificate, which a renewal may replace at any time.
	CertFile, KeyFile string
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Address, "external-metrics-address", "address of the External Metrics API for HPAs in a cluster without KEDA; empty: none")
	fs.String(&o.CertFile, "external-metrics-tls-cert", "file with the certificate of --external-metrics-address")
	fs.String(&o.KeyFile, "external-metrics-tls-key", "file with the key of that certificate")
	fs.Require(o.Address == "" || o.CertFile != "" && o.KeyFile != "",
		"--external-metrics-address needs --external-metrics-tls-cert and --external-metrics-tls-key")
}

const (
	readTimeout    = 5 * time.Second // requests have no body
	maxConnections = 256
)

// Server serves the External Metrics API.
type Server struct {
	options     Options
	certificate *daemon.Certificate
	proxy       *proxy
	measure     Measure
	explain     Explain
	listener    net.Listener // set by tests
	log         logr.Logger
}

// New returns a server of what measure returns. It does nothing before Run.
func New(options Options, config *rest.Config, measure Measure, explain Explain, log logr.Logger) (*Server, error) {
	certificate, err := daemon.NewCertificate("the External Metrics API", options.CertFile, options.KeyFile, log)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	proxy, err := newProxy(client)
	if err != nil {
		return nil, err
	}
	return &Server{options: options, certificate: certificate, proxy: proxy, measure: measure, explain: explain, log: log}, nil
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	// A certificate is asked for and not verified by the handshake, so that a caller with a wrong one gets an answer that says so.
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.Get, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.proxy.follow(ctx) })
	group.Go(func() error {
		return daemon.Serve(ctx, daemon.Server{
			Name: "external metrics", Addr: s.options.Address, Listener: s.listener, ReadTimeout: readTimeout, MaxConnections: maxConnections,
			Handler: s.proxy.only(NewHandler(s.measure, s.explain, s.log), s.log),
			TLS:     func(net.Conn) *tls.Config { return config },
		}, s.log)
	})
	return group.Wait()
}
