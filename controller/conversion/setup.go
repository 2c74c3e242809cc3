package conversion

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/daemon"
)

const (
	// path is Kyma's.
	path = "/convert/functions"

	readTimeout    = 5 * time.Second
	maxConnections = 256
)

// server is the webhook of one replica of the controller. All of them answer.
type server struct {
	address     string
	certificate *certificate
	handler     *Handler
	listener    net.Listener // of tests
	log         logr.Logger
}

// Setup adds the webhook to a manager. files are the CustomResourceDefinitions of the release, by whose rules is judged.
func Setup(manager ctrl.Manager, options Options, files [][]byte) error {
	definitions, err := crdschema.Definitions(files)
	if err != nil {
		return err
	}
	log := manager.GetLogger().WithName("conversion")
	certificate, err := newCertificate(options, log)
	if err != nil {
		return err
	}
	s := &server{
		address: options.Address, certificate: certificate, log: log,
		handler: NewHandler(definitions[v1alpha2.GroupVersion.WithKind("Function")]),
	}
	if err := manager.Add(s); err != nil {
		return fmt.Errorf("set up the conversion webhook: %w", err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.get, NextProtos: []string{"h2", "http/1.1"}}
	mux := http.NewServeMux()
	mux.Handle("POST "+path, s.handler)
	return daemon.Serve(ctx, daemon.Server{
		Name: "conversion", Addr: s.address, Listener: s.listener, Handler: mux, ReadTimeout: readTimeout, MaxConnections: maxConnections,
		TLS: func(net.Conn) *tls.Config { return config },
	}, s.log)
}
