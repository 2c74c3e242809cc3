package daemon

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// Certificate is a server's certificate in files. It is read at each handshake. While a renewal is incomplete or invalid the previous one
// stays in use.
type Certificate struct {
	of                string
	certFile, keyFile string
	last              atomic.Pointer[tls.Certificate]
	log               logr.Logger
}

// NewCertificate returns the certificate of a server, which errors name, and an error if there is none at the moment.
func NewCertificate(of, certFile, keyFile string, log logr.Logger) (*Certificate, error) {
	c := &Certificate{of: of, certFile: certFile, keyFile: keyFile, log: log}
	_, err := c.Get(nil)
	return c, err
}

// Get is for tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err == nil {
		c.last.Store(&pair)
		return &pair, nil
	}
	err = fmt.Errorf("load the certificate of %s: %w", c.of, err)
	if last := c.last.Load(); last != nil {
		c.log.Error(err, "keeping the previous certificate: correct its Secret")
		return last, nil
	}
	return nil, err
}
