package conversion

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestARenewedCertificateIsShownAndABrokenRenewalKeepsTheOneBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := Options{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	write := func(certificate, key []byte) {
		require.NoError(t, os.WriteFile(options.CertFile, certificate, 0o600))
		require.NoError(t, os.WriteFile(options.KeyFile, key, 0o600))
	}
	_, err := newCertificate(options, logr.Discard())
	require.ErrorContains(t, err, "load the certificate of the conversion webhook", "a start without one says so")

	first, second := loopback.Make(t, time.Time{}, "localhost"), loopback.Make(t, time.Time{}, "localhost")
	write(first.Certificate, first.Key)
	certificate, err := newCertificate(options, logr.Discard())
	require.NoError(t, err)
	shown := func() []byte {
		pair, err := certificate.get(nil)
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
