// Command dashboard serves the dashboard of a cluster to users who log in with their tokens of Kubernetes.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/dashboard/alerts"
	"github.com/rouse-run/rouse/dashboard/clusterhome"
	"github.com/rouse-run/rouse/dashboard/issuer"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/kube"
)

func main() {
	o := defaultOptions()
	os.Exit(daemon.Main("dashboard", os.Args[1:], o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) }))
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	kube.SetLogger(log)
	config, _, err := kube.Cluster()
	if err != nil {
		return err
	}
	reviews, err := kube.NewReviews()
	if err != nil {
		return err
	}
	registry := daemon.NewRegistry()
	s, err := newServer(config, reviews, o, registry, log)
	if err != nil {
		return err
	}
	serving := daemon.Server{Name: "dashboard", Addr: o.address, MaxConnections: o.maxConnections}
	if len(o.proxies) == 0 { // one of these has the connections of many
		serving.Shares = []daemon.Share{{Of: httplimit.KeyOfConn}}
	}
	if o.certFile != "" {
		certificate, err := daemon.NewCertificate("the dashboard", o.certFile, o.keyFile, log)
		if err != nil {
			return err
		}
		secure := &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: certificate.Get, NextProtos: []string{"h2", "http/1.1"},
		}
		serving.TLS = func(net.Conn) *tls.Config { return secure }
	}
	var draining atomic.Bool
	serve := func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { draining.Store(true) })()
		serving.Handler = daemon.CancelHandler(ctx, s.handler)
		return daemon.Serve(ctx, serving, log)
	}
	return daemon.RunOn(ctx, serve, append(s.ground, func(ctx context.Context) error {
		return daemon.Serve(ctx, daemon.Server{Name: "metrics", Addr: o.metricsAddress, Handler: probes(registry, &draining)}, log)
	})...)
}

// probes answers probes and serves metrics.
func probes(registry *prometheus.Registry, draining *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	return mux
}

// server is the handler of the pages and the API, and what runs below it.
type server struct {
	handler  *dashboard.Handler
	sessions *dashboard.Sessions
	ground   []func(context.Context) error
}

// newServer returns a server for the cluster of a configuration, whose credentials are the process's own.
func newServer(config *rest.Config, reviews identity.Reviews, o *options, registry prometheus.Registerer, log logr.Logger) (*server, error) {
	own, err := target.OpenInCluster(config, o.rouseNamespace)
	if err != nil {
		return nil, err
	}
	token := transport.NewCachedFileTokenSource(o.bridgeTokenFile)
	deps := clusterhome.ProcessDeps{
		Own: own, Access: identity.NewKubernetes(reviews, log.WithName("access")), Changes: o.changes, Records: o.records, Alerts: o.alerts, Log: log,
		BridgeToken: func() (string, error) {
			found, err := token.Token()
			if err != nil {
				return "", fmt.Errorf("--bridge-token-file: %w", err)
			}
			return found.AccessToken, nil
		},
	}
	s := &server{}
	if o.changes {
		notes, err := kube.NewNotes(config, "rouse-dashboard")
		if err != nil {
			return nil, err
		}
		deps.Note = func(object *unstructured.Unstructured, reason, note string) { notes.Add(object, reason, note) }
		s.ground = append(s.ground, notes.Run)
	}
	process := clusterhome.NewProcess(deps)
	o.sessions.Proxies = o.proxies
	if o.issuer.URL != "" {
		if o.sessions.Issuer, err = newIssuer(o, log.WithName("issuer")); err != nil {
			return nil, err
		}
	}
	s.sessions = dashboard.NewSessions(process, o.sessions, log)
	s.ground = append(s.ground, process.Run, process.Watch, s.sessions.Run)
	provided := dashboard.Deps{
		About: dashboard.About{
			Home: "cluster", Name: o.name, Version: daemon.Version(), LogIn: "send a token of Kubernetes to /api/v1/login",
		},
		Sessions: s.sessions, Log: log,
	}
	process.Provide(&provided)
	if s.handler, err = dashboard.New(provided); err != nil {
		return nil, err
	}
	return s, errors.Join(s.sessions.Register(registry), s.handler.Register(registry))
}

// newIssuer returns the issuer at which users may log in.
func newIssuer(o *options, log logr.Logger) (*issuer.Issuer, error) {
	if o.issuerCAFile != "" {
		ca, err := os.ReadFile(o.issuerCAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		o.issuer.CA = ca
	}
	return issuer.New(o.issuer, log)
}

type options struct {
	address, metricsAddress         string
	certFile, keyFile               string
	rouseNamespace, bridgeTokenFile string
	name                            string
	changes                         bool
	records, maxConnections         int
	trustedProxies                  []string
	proxies                         dashboard.Proxies
	sessions                        dashboard.SessionOptions
	alertLimits                     string
	alerts                          alerts.Limits
	issuer                          issuer.Options
	issuerCAFile                    string
}

func defaultOptions() *options {
	const records, connections = 20000, 512
	return &options{
		address: ":8080", metricsAddress: ":9090", rouseNamespace: target.DefaultRouseNamespace, name: "the cluster",
		records: records, maxConnections: connections, sessions: dashboard.DefaultSessionOptions(),
	}
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	fs.String(&o.address, "address", "address of the pages and their API").NotEmpty()
	fs.String(&o.metricsAddress, "metrics-address", "address of metrics and probes").NotEmpty()
	fs.String(&o.certFile, "tls-cert", "file with the certificate of the pages; plain text when empty")
	fs.String(&o.keyFile, "tls-key", "file with the key of that certificate")
	fs.Require((o.certFile == "") == (o.keyFile == ""), "--tls-cert and --tls-key must be set together")
	fs.String(&o.name, "name", "name of the cluster, which the pages show")
	fs.String(&o.rouseNamespace, "rouse-namespace", "namespace of the eventbridges and gateways").NotEmpty()
	fs.String(&o.bridgeTokenFile, "bridge-token-file", "token of this process's ServiceAccount for the admin API").NotEmpty()
	fs.Bool(&o.changes, "allow-changes", "let users change what they may in the cluster; else all may only read")
	fs.Int(&o.records, "journal-events", "latest records of events that are held for all users").AtLeast(1)
	fs.Int(&o.maxConnections, "max-connections", "maximum connections of browsers; a further one closes the slowest").AtLeast(1)
	fs.Strings(&o.trustedProxies, "trusted-proxies", "networks, as 10.0.0.0/8, of proxies whose X-Forwarded-For names the client")
	fs.Check(o.parseProxies)
	fs.String(&o.alertLimits, "alert-limits", "thresholds of alerts, in JSON; the chart's defaults for those that are missing")
	fs.Check(o.parseAlerts)
	o.issuerFlags(fs)
}

func (o *options) issuerFlags(fs *flags.Set) {
	at := &o.issuer
	fs.String(&at.URL, "oidc-issuer", "issuer of OpenID Connect at which users may log in, whose ID tokens the API server takes; none when empty")
	fs.String(&at.ClientID, "oidc-client-id", "client ID of the dashboard there")
	fs.String(&at.SecretFile, "oidc-client-secret-file", "file with the secret of that client; a public client when empty")
	fs.String(&at.Name, "oidc-name", "name of the issuer on the login page; its host when empty")
	fs.Strings(&at.Scopes, "oidc-scopes", "scopes besides openid; with offline_access tokens are renewed")
	fs.String(&o.issuerCAFile, "oidc-ca-file", "certificates (PEM) that are trusted for the issuer besides the public ones")
	fs.String(&at.Home, "oidc-home", "origin at which browsers reach the pages, as https://rouse.example.com; the issuer sends users back there")
	fs.Require(at.URL == "" || at.ClientID != "" && at.Home != "", "--oidc-issuer needs --oidc-client-id and --oidc-home")
}

func (o *options) parseAlerts() (err error) {
	if o.alerts, err = alerts.ParseLimits(o.alertLimits); err != nil {
		return fmt.Errorf("--alert-limits: %w", err)
	}
	return nil
}

func (o *options) parseProxies() error {
	o.proxies = nil
	for _, text := range o.trustedProxies {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--trusted-proxies: %w", err)
		}
		o.proxies = append(o.proxies, network)
	}
	return nil
}
