package daemon_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestABrokenCertificateRenewalKeepsThePreviousCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(certificate, key []byte) {
		require.NoError(t, os.WriteFile(certFile, certificate, 0o600))
		require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	}
	_, err := daemon.NewCertificate("the webhook", certFile, keyFile, logr.Discard())
	require.ErrorContains(t, err, "load the certificate of the webhook", "a start without a certificate must fail")

	first, second := loopback.Make(t, time.Time{}, "localhost"), loopback.Make(t, time.Time{}, "localhost")
	write(first.Certificate, first.Key)
	certificate, err := daemon.NewCertificate("the webhook", certFile, keyFile, logr.Discard())
	require.NoError(t, err)
	shown := func() []byte {
		pair, err := certificate.Get(nil)
		require.NoError(t, err)
		return pair.Certificate[0]
	}
	before := shown()
	write(second.Certificate, first.Key)
	require.Equal(t, before, shown(), "of another key")
	write(nil, nil)
	require.Equal(t, before, shown(), "empty")
	write(second.Certificate, second.Key)
	require.NotEqual(t, before, shown())
}
