package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sink is that of all hostile Subscriptions. It answers as the path of a request asks it to.
type sink struct {
	listener net.Listener
	tls      *tls.Config // of connections that begin with TLS
	calls    atomic.Int64
	open     sync.WaitGroup
}

func startSink(ctx context.Context) (*sink, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	certificate, err := hugeCertificate()
	if err != nil {
		return nil, err
	}
	s := &sink{listener: listener, tls: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	s.open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.serve(ctx, conn) })
		}
	})
	return s, nil
}

func (s *sink) address() string { return s.listener.Addr().String() }

// close returns when all connections have ended, for which the context has to.
func (s *sink) close() {
	_ = s.listener.Close()
	s.open.Wait()
}

func (s *sink) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	requests := bufio.NewReader(conn)
	const handshake = 0x16
	if first, err := requests.Peek(1); err == nil && first[0] == handshake {
		s.calls.Add(1)
		_ = tls.Server(&stuck{Conn: conn, from: requests, left: stuckAfter}, s.tls).HandshakeContext(ctx)
		return
	}
	for {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		s.calls.Add(1)
		if !answers()[strings.TrimPrefix(request.URL.Path, "/")].write(ctx, conn) {
			_, _ = io.Copy(io.Discard, requests) // until the bridge has had enough
			return
		}
	}
}

// write is false when nothing may follow.
func (a answer) write(ctx context.Context, to io.Writer) bool {
	if _, err := io.WriteString(to, numbered(a.start)); err != nil {
		return false
	}
	for range a.times {
		if _, err := io.WriteString(to, numbered(a.more)); err != nil {
			return false
		}
		if a.every > 0 {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(a.every):
			}
		}
	}
	return a.whole
}

const (
	// certificateSize is nearly as much as a client takes of them, and stuckAfter how much of its handshake a sink sends.
	certificateSize = 250 << 10
	stuckAfter      = 240 << 10
)

// hugeCertificate is one with a chain of nothing.
func hugeCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	leaf, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf, make([]byte, certificateSize)}, PrivateKey: key}, nil
}

// stuck is a connection whose writer waits for ever before the end of its data.
type stuck struct {
	net.Conn

	from io.Reader
	left int
}

// Read implements net.Conn.
func (s *stuck) Read(p []byte) (int, error) { return s.from.Read(p) }

// Write implements net.Conn.
func (s *stuck) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p[:min(len(p), s.left)])
	if s.left -= n; err == nil && n < len(p) {
		_, err = io.Copy(io.Discard, s.from) // until the bridge has had enough
	}
	return n, err
}
