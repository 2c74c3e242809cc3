package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
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
	return gitssh.NewClient(nil), auth, nil
}
