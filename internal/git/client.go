package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Options of a Client.
type Options struct {
	// CA has PEM certificates that are trusted besides those of the system.
	CA []byte
	// AllowLoopback lets tests reach servers on this machine.
	AllowLoopback bool
}

// Client reads remote repositories. It may be used by many at a time.
type Client struct {
	options Options
	http    transport.Transport
}

// New fails when the CA has no certificate.
func New(options Options) (*Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(options.CA) > 0 && !roots.AppendCertsFromPEM(options.CA) {
		return nil, errors.New("read the CA bundle: it has no certificate in PEM form")
	}
	c := &Client{options: options}
	c.http = githttp.NewClient(&http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           c.dialer().DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       time.Second, // repositories are asked seldom
		ForceAttemptHTTP2:     true,
	}})
	return c, nil
}

// session is an open repository whose references have been read.
type session struct {
	transport.UploadPackSession

	advertised *packp.AdvRefs
}

// open connects and reads the references. It ends with ctx although go-git's SSH does not know it.
func (c *Client) open(ctx context.Context, repository Repository) (*session, error) {
	endpoint, err := repository.endpoint(c.options.AllowLoopback)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		session *session
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		opened, err := c.connect(ctx, endpoint, repository.Credentials)
		done <- outcome{opened, err}
	}()
	select {
	case found := <-done:
		if found.err != nil {
			return nil, explain(found.err, repository)
		}
		return found.session, nil
	case <-ctx.Done():
		go func() {
			if late := <-done; late.session != nil {
				_ = late.session.Close()
			}
		}()
		return nil, explain(ctx.Err(), repository)
	}
}

func (c *Client) connect(ctx context.Context, endpoint *transport.Endpoint, credentials Credentials) (*session, error) {
	client, auth, err := c.transportOf(ctx, endpoint, credentials)
	if err != nil {
		return nil, err
	}
	opened, err := client.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, err
	}
	advertised, err := opened.AdvertisedReferencesContext(ctx)
	if err != nil {
		_ = opened.Close() // of a session that has just failed
		return nil, err
	}
	return &session{UploadPackSession: opened, advertised: advertised}, nil
}

func (c *Client) transportOf(
	ctx context.Context, endpoint *transport.Endpoint, credentials Credentials,
) (transport.Transport, transport.AuthMethod, error) {
	if endpoint.Protocol != "ssh" {
		if credentials.IsZero() {
			return c.http, nil, nil
		}
		if len(credentials.privateKey) > 0 {
			return nil, nil, &Error{Kind: Authentication, Message: "an SSH key does not open " + endpoint.Protocol + " URLs. " +
				"Use an ssh URL in spec.source.gitRepository.url, or auth.type basic"}
		}
		return c.http, &githttp.BasicAuth{Username: credentials.username, Password: credentials.password}, nil
	}
	auth, err := sshAuth(endpoint, credentials)
	if err != nil {
		return nil, nil, err
	}
	if endpoint.Host, err = c.resolve(ctx, endpoint.Host); err != nil {
		return nil, nil, err
	}
	return gitssh.NewClient(&ssh.ClientConfig{Timeout: dialTimeout}), auth, nil
}

// sshAuth: without known_hosts in the Secret, any host key is taken, as in Kyma.
func sshAuth(endpoint *transport.Endpoint, credentials Credentials) (gitssh.AuthMethod, error) {
	user := endpoint.User
	if user == "" {
		user = "git"
	}
	check := gitssh.HostKeyCallbackHelper{HostKeyCallback: ssh.InsecureIgnoreHostKey()} //nolint:gosec // documented: verified when the Secret has known_hosts
	if len(credentials.knownHosts) > 0 {
		verify, err := verifyHostKey(endpoint, credentials.knownHosts)
		if err != nil {
			return nil, err
		}
		check.HostKeyCallback = verify
	}
	if len(credentials.privateKey) == 0 {
		if credentials.IsZero() {
			return nil, &Error{Kind: Authentication, Message: "an ssh URL needs a key. Name a Secret with one in spec.source.gitRepository.auth " +
				"with type key"}
		}
		return &gitssh.Password{User: credentials.username, Password: credentials.password, HostKeyCallbackHelper: check}, nil
	}
	signer, err := credentials.signer()
	if err != nil {
		return nil, err
	}
	return &gitssh.PublicKeys{User: user, Signer: signer, HostKeyCallbackHelper: check}, nil
}

// verifyHostKey checks against the host of the URL: the connection goes to an address of it.
func verifyHostKey(endpoint *transport.Endpoint, known []byte) (ssh.HostKeyCallback, error) {
	file, err := os.CreateTemp("", "known_hosts-")
	if err != nil {
		return nil, fmt.Errorf("write known_hosts: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(known)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write known_hosts: %w", err)
	}
	verify, err := knownhosts.New(file.Name())
	if err != nil {
		return nil, &Error{Kind: HostKey, Message: "known_hosts in the Secret of spec.source.gitRepository.auth cannot be read: " + err.Error(), err: err}
	}
	port := endpoint.Port
	if port == 0 {
		port = gitssh.DefaultPort
	}
	name := net.JoinHostPort(endpoint.Host, strconv.Itoa(port))
	return func(_ string, remote net.Addr, key ssh.PublicKey) error { return verify(name, remote, key) }, nil
}
