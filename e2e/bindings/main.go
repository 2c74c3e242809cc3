// Command bindings runs servicebinding.io's runtime for the end-to-end test: its own projector and resolver, from its
// Go module, in a process outside of the cluster that handles one namespace. The reconciliation loop and, with
// -webhook, the webhook behave like the runtime's controllers, whose packages need a module that not every proxy has.
//
// It is a separate module, since the runtime's types need an older controller-runtime than Rouse's.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	servicebindingv1 "github.com/servicebinding/runtime/apis/v1"
	"github.com/servicebinding/runtime/projector"
	"github.com/servicebinding/runtime/resolver"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	namespace := flag.String("namespace", "", "the namespace to take care of")
	hooked := flag.Bool("webhook", false, "project at admission, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *namespace, *hooked)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bindings:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string, hooked bool) error {
	if namespace == "" {
		return errors.New("-namespace is missing")
	}
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	// The API server derives the field manager's name from it, as for the runtime's program.
	config.UserAgent = "runtime/v1.0.0"
	scheme := clientgoscheme.Scheme
	if err := servicebindingv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("register types: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := installCRDs(ctx, config); err != nil {
		return err
	}
	found := resolver.New(live)
	runtime := &runtime{Client: live, resolver: found, projector: projector.New(found)}
	if hooked {
		stop, err := runtime.serveWebhook(ctx, config.Host, namespace)
		if err != nil {
			return err
		}
		defer stop()
	}
	return runtime.manage(ctx, config, namespace)
}

func (r *runtime) manage(ctx context.Context, config *rest.Config, namespace string) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  r.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	if err := r.setup(mgr); err != nil {
		return err
	}
	fmt.Println("bindings: ready")
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

// serverFor listens on the address from which this machine reaches the API server, which may be in a separate network.
func serverFor(ctx context.Context, apiServer string, handler http.Handler) (*httptest.Server, error) {
	where, err := url.Parse(apiServer)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	probe, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(where.Hostname(), "443")) // sends nothing
	if err != nil {
		return nil, fmt.Errorf("find the way to the API server: %w", err)
	}
	defer func() { _ = probe.Close() }()
	from, ok := probe.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("the address of this machine is a %T", probe.LocalAddr())
	}
	pair, err := certificateFor(from.IP)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(from.IP.String(), "0"))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	server := &httptest.Server{
		Listener: listener, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		Config: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second},
	}
	server.StartTLS()
	return server, nil
}

func certificateFor(ip net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{ip},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, nil
}
