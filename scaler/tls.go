package scaler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLSOptions secures the gRPC port.
type TLSOptions struct {
	// CertFile and KeyFile hold the server's certificate. They are read at each
	// handshake, so that a renewed one needs no restart.
	CertFile, KeyFile string
	// ClientCAFile, when set, makes a client certificate of that authority
	// necessary.
	ClientCAFile string
}

func (o *TLSOptions) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.CertFile, "tls-cert", o.CertFile, "file with the certificate of the gRPC port; plain text when empty")
	fs.StringVar(&o.KeyFile, "tls-key", o.KeyFile, "file with the key of that certificate")
	fs.StringVar(&o.ClientCAFile, "tls-client-ca", o.ClientCAFile, "file with the authority that KEDA's client certificate must come from")
}

func (o *TLSOptions) validate() error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("--tls-cert and --tls-key must be set together")
	}
	if o.ClientCAFile != "" && o.CertFile == "" {
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return nil
}

// credentials are those of plain text when no TLS is wanted.
func (o *TLSOptions) credentials() (credentials.TransportCredentials, error) {
	if o.CertFile == "" {
		return insecure.NewCredentials(), nil
	}
	if _, err := o.certificate(nil); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: o.certificate}
	if o.ClientCAFile != "" {
		pem, err := os.ReadFile(o.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read client authority: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", o.ClientCAFile)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return credentials.NewTLS(config), nil
}

func (o *TLSOptions) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load server certificate: %w", err)
	}
	return &pair, nil
}
