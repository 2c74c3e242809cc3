package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"
)

// serverFor listens where this machine reaches the API server from, which may be in a network of its own.
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
