package git

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// login is how a connection over SSH begins.
type login struct {
	config ssh.ClientConfig
	name   string
}

// Name implements transport.AuthMethod.
func (l *login) Name() string { return l.name }

// String hides what is in it.
func (l *login) String() string { return l.name }

// ClientConfig implements the AuthMethod of go-git's SSH.
func (l *login) ClientConfig() (*ssh.ClientConfig, error) { return &l.config, nil }

func sshAuth(endpoint *transport.Endpoint, credentials Credentials) (*login, error) {
	if credentials.IsZero() {
		return nil, &Error{Kind: Authentication, Message: "an ssh URL needs a key. Name a Secret with one in spec.source.gitRepository.auth " +
			"with type key"}
	}
	l := &login{name: "ssh", config: ssh.ClientConfig{User: endpoint.User, Timeout: dialTimeout}}
	if len(credentials.privateKey) > 0 {
		signer, err := credentials.signer()
		if err != nil {
			return nil, err
		}
		l.config.Auth = []ssh.AuthMethod{ssh.PublicKeys(signer)}
	} else {
		l.config.User, l.config.Auth = credentials.username, []ssh.AuthMethod{ssh.Password(credentials.password)}
	}
	if l.config.User == "" {
		l.config.User = "git"
	}
	return l, l.verifyHost(endpoint, credentials.knownHosts)
}

// verifyHost checks against the host of the URL, since the connection goes to an address of it. Without
// known_hosts in the Secret any host key is taken, as in Kyma.
func (l *login) verifyHost(endpoint *transport.Endpoint, known []byte) error {
	if len(known) == 0 {
		l.config.HostKeyCallback = ssh.InsecureIgnoreHostKey() //nolint:gosec // documented: who wants verification adds known_hosts
		return nil
	}
	file, err := os.CreateTemp("", "known_hosts-")
	if err != nil {
		return fmt.Errorf("write known_hosts: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(known)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write known_hosts: %w", err)
	}
	keys, err := gitssh.NewKnownHostsDb(file.Name())
	if err != nil {
		return &Error{Kind: HostKey, Message: "known_hosts in the Secret of spec.source.gitRepository.auth cannot be read: " + err.Error(), err: err}
	}
	port := endpoint.Port
	if port == 0 {
		port = gitssh.DefaultPort
	}
	name := net.JoinHostPort(endpoint.Host, strconv.Itoa(port))
	verify := keys.HostKeyCallback()
	l.config.HostKeyAlgorithms = keys.HostKeyAlgorithms(name)
	l.config.HostKeyCallback = func(_ string, remote net.Addr, key ssh.PublicKey) error { return verify(name, remote, key) }
	return nil
}
