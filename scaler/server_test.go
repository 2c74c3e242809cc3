package scaler

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestHandlerServesHealthAndReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.options.DrainDelay = 3 * time.Second
		r.start()
		get := func(path string) int {
			recorder := httptest.NewRecorder()
			r.scaler.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			return recorder.Code
		}
		synctest.Wait()
		require.Equal(t, http.StatusOK, get("/healthz"))
		require.Equal(t, http.StatusServiceUnavailable, get("/readyz"), "subscriptions are not known")

		r.routes.post(nil)
		synctest.Wait()
		require.Equal(t, http.StatusOK, get("/readyz"))
		r.broker.breakDown()
		require.Equal(t, http.StatusOK, get("/readyz"), "an error must still reach KEDA")
		require.Equal(t, http.StatusOK, get("/metrics"))

		go r.stop()
		advance(time.Second)
		require.Equal(t, http.StatusServiceUnavailable, get("/readyz"))
		require.Equal(t, http.StatusOK, get("/healthz"))
		r.stop()
	})
}

func TestMetricsCountAWake(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.keda("order", nil)
		advance(time.Second)
		r.broker.publish(orderPlaced)
		advance(5 * time.Second)

		problems, err := testutil.GatherAndLint(r.registry)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_activations_total"), 0)
		require.InDelta(t, 2, value(t, r.registry, "rouse_scaler_streams_open"), 0)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_functions_tracked"), 0)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_activation_seconds"), 0)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_ready_endpoint_seconds"), 0)
		require.Less(t, value(t, r.registry, "rouse_scaler_snapshot_age_seconds"), 3.0)

		r.broker.breakDown()
		advance(5 * time.Second)
		require.NotZero(t, value(t, r.registry, "rouse_scaler_refresh_errors_total"))
		r.network.cut()
		advance(5 * time.Second)
		require.InDelta(t, 1, value(t, r.registry, "rouse_scaler_stream_gap_seconds"), 0)
	}, order)
}

// value sums a metric over its labels; of a histogram, the observations.
func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

type brokenRoutes struct{}

func (brokenRoutes) Watch(context.Context, func([]routing.Route)) error {
	return errors.New("no permission")
}

func TestServeEndsWhenSubscriptionsCannotBeWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := New(Deps{
			Routes: brokenRoutes{}, Endpoints: r.endpoints,
			Backlogs: r.broker, Listener: r.broker, Connection: r.broker,
			Registry: r.registry, Log: r.logs.logger(),
		}, r.options)
		err := s.Serve(t.Context(), bufconn.Listen(1<<10))
		require.ErrorContains(t, err, "watch subscriptions: no permission")
	})
}

// authority is a certificate of its own with its key; it also signs itself.
type authority struct {
	cert, key string // files
	pair      tls.Certificate
	pool      *x509.CertPool
}

func newAuthority(t *testing.T, dir, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	a := authority{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key"), pool: x509.NewCertPool()}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	require.NoError(t, os.WriteFile(a.cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(a.key, keyPEM, 0o600))
	a.pair, err = tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	a.pool.AppendCertsFromPEM(certPEM)
	return a
}

func TestWithTLSOnlyKEDAGetsAnAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, keda, stranger := newAuthority(t, dir, "server"), newAuthority(t, dir, "keda"), newAuthority(t, dir, "stranger")
	r := newRig(t)
	r.options.TLS = TLSOptions{CertFile: server.cert, KeyFile: server.key, ClientCAFile: keda.cert}
	r.routes.post(nil)

	clients := map[string]struct {
		credentials credentials.TransportCredentials
		wantErr     bool
	}{
		"KEDA": {credentials: credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, Certificates: []tls.Certificate{keda.pair}, MinVersion: tls.VersionTLS12,
		})},
		"a stranger": {credentials: credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, Certificates: []tls.Certificate{stranger.pair}, MinVersion: tls.VersionTLS12,
		}), wantErr: true},
		"a client without a certificate": {credentials: credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, MinVersion: tls.VersionTLS12,
		}), wantErr: true},
		"a client without TLS": {credentials: insecure.NewCredentials(), wantErr: true},
	}
	address := r.serveTCP()
	for name, tc := range clients {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(tc.credentials))
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = newClient(conn).GetMetricSpec(t.Context(), r.ref("order"))
			require.Equal(t, tc.wantErr, err != nil, "%v", err)
		})
	}
}

func TestUnusableCertificatesStopTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := newAuthority(t, dir, "server")
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	tests := map[string]struct {
		options TLSOptions
		want    string
	}{
		"no such file":       {options: TLSOptions{CertFile: dir + "/none", KeyFile: server.key}, want: "load the certificate of the gRPC port"},
		"not a certificate":  {options: TLSOptions{CertFile: empty, KeyFile: empty}, want: "load the certificate of the gRPC port"},
		"no authority":       {options: TLSOptions{CertFile: server.cert, KeyFile: server.key, ClientCAFile: dir + "/none"}, want: "read client authority"},
		"an empty authority": {options: TLSOptions{CertFile: server.cert, KeyFile: server.key, ClientCAFile: empty}, want: "no certificate in"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.options.credentials(logr.Discard())
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDefaultOptionsAreValidAndSurviveTheirFlags(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	fs := pflag.NewFlagSet("scaler", pflag.ContinueOnError)
	flags.Bind(fs, &options)
	require.NoError(t, fs.Parse(nil))
	require.NoError(t, flags.Validate(&options))
	require.Equal(t, DefaultOptions(), options)
}

func TestInvalidOptionsAreAllNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want []string
	}{
		"empty names": {
			args: []string{"--grpc-address=", "--stream-name="},
			want: []string{"--grpc-address must not be empty", "--stream-name must not be empty"},
		},
		"durations that no timer takes": {
			args: []string{"--refresh-active-interval=0s", "--push-repeat=-1s", "--drain-delay=-1s"},
			want: []string{"--refresh-active-interval must be more than 0", "--push-repeat must be more than 0s, is -1s", "--drain-delay must be at least 0s"},
		},
		"readings that are too old before the next one": {
			args: []string{"--refresh-idle-interval=10s"},
			want: []string{"--refresh-max-age must be at least 22s, twice --refresh-idle-interval plus --refresh-timeout, is 15s"},
		},
		"a first answer that never comes in time": {
			args: []string{"--first-answer-wait=2s"},
			want: []string{"--first-answer-wait (2s) must be less than --answer-timeout (1s)"},
		},
		"a negative grace": {
			args: []string{"--activator-grace=-1s"},
			want: []string{"--activator-grace must be at least 0s, is -1s"},
		},
		"half a certificate": {
			args: []string{"--tls-cert=/cert"},
			want: []string{"--tls-cert and --tls-key must be set together"},
		},
		"an authority without a certificate": {
			args: []string{"--tls-client-ca=/ca"},
			want: []string{"--tls-client-ca needs --tls-cert and --tls-key"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			fs := pflag.NewFlagSet("scaler", pflag.ContinueOnError)
			flags.Bind(fs, &options)
			require.NoError(t, fs.Parse(tc.args))
			err := flags.Validate(&options)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestFlagsReachTheirOptions(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	fs := pflag.NewFlagSet("scaler", pflag.ContinueOnError)
	flags.Bind(fs, &options)
	require.NoError(t, fs.Parse([]string{
		"--push-heartbeat=11s", "--grpc-address=127.0.0.1:0", "--wake-grace=1s",
		"--gateway-service=rouse-system/rouse-gateway", "--activator-grace=20s",
	}))
	require.Equal(t, 11*time.Second, options.Push.Heartbeat)
	require.Equal(t, "127.0.0.1:0", options.GRPCAddress)
	require.Equal(t, time.Second, options.Refresh.WakeGrace)
	require.Equal(t, HTTPOptions{
		GatewayService: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}, ActivatorGrace: 20 * time.Second,
	}, options.HTTP)
}
