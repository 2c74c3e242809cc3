package conversion

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// certificate is read at each handshake. A renewal that is half written, or wrong, keeps the one before in use.
type certificate struct {
	certFile, keyFile string
	last              atomic.Pointer[tls.Certificate]
	log               logr.Logger
}

func newCertificate(options Options, log logr.Logger) (*certificate, error) {
	c := &certificate{certFile: options.CertFile, keyFile: options.KeyFile, log: log}
	_, err := c.get(nil)
	return c, err
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err == nil {
		c.last.Store(&pair)
		return &pair, nil
	}
	err = fmt.Errorf("load the certificate of the conversion webhook: %w", err)
	if last := c.last.Load(); last != nil {
		c.log.Error(err, "the certificate before is shown on: correct the Secret of the conversion webhook")
		return last, nil
	}
	return nil, err
}
