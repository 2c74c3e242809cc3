package entrance

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// shown returns the certificate that a client gets for a server name.
func (f *fixture) shown(name string) *x509.Certificate {
	f.t.Helper()
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	conn, err := (&tls.Dialer{Config: config}).DialContext(f.t.Context(), "tcp", f.options.TLSAddress)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, conn.Close()) }()
	secure, ok := conn.(*tls.Conn)
	require.True(f.t, ok)
	return secure.ConnectionState().PeerCertificates[0]
}

func TestACertificateIsFoundByTheNameThatIsAskedFor(t *testing.T) {
	t.Parallel()
	f := start(t, protocol, func(o *Options) {
		store(t, o.TLSDir, "wild", loopback.Make(t, time.Time{}, "*.example.com"))
		store(t, o.TLSDir, "other", loopback.Make(t, time.Time{}, "other.example.org", "also.example.org"))
		store(t, o.TLSDir, "soon", loopback.Make(t, time.Now().Add(time.Minute), "twice.example.org"))
		store(t, o.TLSDir, "then", loopback.Make(t, time.Now().Add(2*time.Hour), "twice.example.org"))
	})
	for asked, want := range map[string]string{
		"shop.example.com":    "shop.example.com", // though the wildcard fits
		"SHOP.example.com":    "shop.example.com",
		"price.example.com":   "*.example.com",
		"a.price.example.com": "shop.example.com", // a wildcard is one label; this is the default
		"example.com":         "shop.example.com",
		"also.example.org":    "other.example.org",
		"unknown.example.net": "shop.example.com",
		"":                    "shop.example.com",
	} {
		require.Equal(t, want, f.shown(asked).DNSNames[0], asked)
	}
	require.Greater(t, time.Until(f.shown("twice.example.org").NotAfter), time.Hour, "of two the one that is valid for longest")
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	t.Parallel()
	if fips140.Enabled() {
		t.Skip("a client in FIPS mode cannot ask for them")
	}
	f := start(t, protocol)
	config := f.client.Clone()
	config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", f.options.TLSAddress)
	require.ErrorContains(t, err, "protocol version")
}

func TestARenewedCertificateIsServedWithoutARestart(t *testing.T) {
	t.Parallel()
	f := start(t, protocol)
	renewed := loopback.Make(t, time.Now().Add(48*time.Hour), "shop.example.com")
	store(t, f.options.TLSDir, "first", renewed)
	require.Eventually(t, func() bool { return time.Until(f.shown("shop.example.com").NotAfter) > 24*time.Hour }, time.Minute, time.Millisecond)
	store(t, f.options.TLSDir, "second", loopback.Make(t, time.Time{}, "new.example.com"))
	require.Eventually(t, func() bool { return f.shown("new.example.com").DNSNames[0] == "new.example.com" }, time.Minute, time.Millisecond)
	require.NoError(t, os.RemoveAll(filepath.Join(f.options.TLSDir, "second")))
	require.Eventually(t, func() bool { return f.shown("new.example.com").DNSNames[0] == "shop.example.com" }, time.Minute, time.Millisecond)
}

func TestKubeletMaySwapTheFolderOfCertificates(t *testing.T) {
	t.Parallel()
	f := start(t, protocol, func(o *Options) {
		require.NoError(t, os.RemoveAll(filepath.Join(o.TLSDir, "first")))
		store(t, filepath.Join(o.TLSDir, "..1"), "shop", loopback.Make(t, time.Time{}, "shop.example.com"))
		require.NoError(t, os.Symlink("..1", filepath.Join(o.TLSDir, "..data")))
		require.NoError(t, os.Symlink(filepath.Join("..data", "shop"), filepath.Join(o.TLSDir, "shop")))
	})
	require.Equal(t, "shop.example.com", f.shown("").DNSNames[0])
	store(t, filepath.Join(f.options.TLSDir, "..2"), "shop", loopback.Make(t, time.Time{}, "renewed.example.com"))
	require.NoError(t, os.Symlink("..2", filepath.Join(f.options.TLSDir, "..next")))
	require.NoError(t, os.Rename(filepath.Join(f.options.TLSDir, "..next"), filepath.Join(f.options.TLSDir, "..data")))
	require.Eventually(t, func() bool { return f.shown("").DNSNames[0] == "renewed.example.com" }, time.Minute, time.Millisecond)
}

func TestABrokenRenewalKeepsTheCertificateAndIsCountedOnce(t *testing.T) {
	t.Parallel()
	f := start(t, protocol, func(o *Options) { o.Reload = time.Hour })
	good, other := loopback.Make(t, time.Time{}, "good.example.com"), loopback.Make(t, time.Time{}, "other.example.com")
	failures := &f.entrance.metrics.failures
	for i, broken := range []loopback.Pair{
		{Certificate: other.Certificate, Key: good.Key},
		{Certificate: []byte("no certificate"), Key: good.Key},
		{Certificate: []byte(strings.Repeat("x", maxFile+1)), Key: good.Key},
	} {
		store(t, f.options.TLSDir, "first", broken)
		for range 3 {
			f.entrance.certificates.reload(*failures)
		}
		require.Equal(t, "shop.example.com", f.shown("").DNSNames[0])
		require.InDelta(t, i+1, testutil.ToFloat64(*failures), 0)
	}
	require.NoError(t, os.Remove(filepath.Join(f.options.TLSDir, "first", "tls.key")))
	store(t, f.options.TLSDir, "second", good)
	f.entrance.certificates.reload(*failures)
	require.Equal(t, "shop.example.com", f.shown("").DNSNames[0])
	require.Equal(t, "good.example.com", f.shown("good.example.com").DNSNames[0], "a broken one disturbs no other")
	require.Equal(t, 2, testutil.CollectAndCount(expiries{f.entrance.certificates}))
}

func TestHTTPIsServedWhileNoCertificateIsThere(t *testing.T) {
	t.Parallel()
	f := start(t, protocol, func(o *Options) { o.TLSDir = filepath.Join(o.TLSDir, "none") })
	require.Equal(t, "HTTP/1.1 shop.example.com", f.text(f.request("http", "/"), false))
	_, err := (&tls.Dialer{Config: f.client}).DialContext(t.Context(), "tcp", f.options.TLSAddress)
	require.Error(t, err)
	late := loopback.Make(t, time.Time{}, "shop.example.com")
	store(t, f.options.TLSDir, "late", late)
	f.client.RootCAs = loopback.Roots(t, late)
	require.Eventually(t, func() bool {
		answer, err := f.transport(true).RoundTrip(f.request("https", "/"))
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, time.Minute, time.Millisecond)
}

func TestFoldersOfCertificatesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range maxFolders + 10 {
		require.NoError(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700))
	}
	found, err := folders(dir)
	require.NoError(t, err)
	require.Len(t, found, maxFolders)
	newCertificates(dir, logr.Discard()).reload(counter{})
}

type counter struct{}

func (counter) Inc() {}
