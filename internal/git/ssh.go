package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// handshakeTimeout bounds the handshake and the authentication.
const handshakeTimeout = 20 * time.Second

// errCommand means that git-upload-pack failed on the server.
var errCommand = errors.New("its command git-upload-pack has failed")

// sshSession is a session with one git-upload-pack. go-git's implementation cannot be interrupted while a server is
// silent, and accepts no dialer that could deny addresses.
type sshSession struct {
	connection *ssh.Client
	command    *ssh.Session
	stdin      io.WriteCloser
	stdout     io.Reader
	listing    *listing // of the beginning of stdout
	complaint  beginning
	release    func() bool
}

// openSSH connects and starts the command. The connection is closed when ctx ends.
func (c *Client) openSSH(ctx context.Context, endpoint *transport.Endpoint, repository Repository) (*sshSession, error) {
	address := sshAddress(endpoint)
	config, err := c.sshConfig(ctx, endpoint, address, repository)
	if err != nil {
		return nil, err
	}
	connection, err := c.options.Guard.Dialer(dialTimeout).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &sshSession{release: context.AfterFunc(ctx, func() { _ = connection.Close() })}
	if err := s.start(connection, address, config, endpoint.Path); err != nil {
		s.release()
		_ = connection.Close()
		return nil, err
	}
	s.listing = newListing(s.stdout, selectionOf(ctx))
	return s, nil
}

func sshAddress(endpoint *transport.Endpoint) string {
	port := endpoint.Port
	if port == 0 {
		port = gitssh.DefaultPort
	}
	return net.JoinHostPort(strings.Trim(endpoint.Host, "[]"), strconv.Itoa(port))
}

func (s *sshSession) start(connection net.Conn, address string, config *ssh.ClientConfig, path string) error {
	if err := connection.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	agreed, channels, requests, err := ssh.NewClientConn(connection, address, config)
	if err != nil {
		return err
	}
	s.connection = ssh.NewClient(agreed, channels, requests)
	if s.command, err = s.connection.NewSession(); err != nil {
		return err
	}
	if s.stdin, err = s.command.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = s.command.StdoutPipe(); err != nil {
		return err
	}
	s.command.Stderr = &s.complaint
	if err := s.command.Start(transport.UploadPackServiceName + " " + quoted(path)); err != nil {
		return err
	}
	return connection.SetDeadline(time.Time{})
}

// quoted quotes a path for the server's shell as git does.
func quoted(path string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(path) + "'"
}

// AdvertisedReferencesContext reads the server's advertisement. ctx is that of openSSH.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	advertised := packp.NewAdvRefs()
	err := advertised.Decode(s.listing)
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs), err == nil && advertised.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, s.because(err)
	}
	transport.FilterUnsupportedCapabilities(advertised.Capabilities)
	return advertised, nil
}

// UploadPack requests objects.
func (s *sshSession) UploadPack(_ context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if err := request.UploadRequest.Encode(s.stdin); err != nil {
		return nil, s.because(err)
	}
	if err := pktline.NewEncoder(s.stdin).EncodeString("done\n"); err != nil {
		return nil, s.because(err)
	}
	response := packp.NewUploadPackResponse(request)
	if err := response.Decode(io.NopCloser(s.stdout)); err != nil {
		return nil, s.because(err)
	}
	return response, nil
}

// because classifies an error by the stderr of the server's command, which is complete once the command has ended. Its
// text is not returned: the server may be one that the user of the URL must not reach.
func (s *sshSession) because(err error) error {
	_ = s.stdin.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(s.stdout, complaintSize))
	exited, ok := errors.AsType[*ssh.ExitError](s.command.Wait())
	switch {
	case ok && isNotFound(s.complaint.String()):
		return errors.Join(transport.ErrRepositoryNotFound, exited)
	case ok:
		return errors.Join(errCommand, exited)
	default:
		return err
	}
}

// Close closes the connection.
func (s *sshSession) Close() error {
	s.release()
	return s.connection.Close()
}

// isNotFound recognizes the messages of the common hosts.
func isNotFound(said string) bool {
	said = strings.ToLower(said)
	for _, phrase := range []string{
		"not found", "could not be found", "does not exist", "does not appear to be a git repository", "no such repository",
	} {
		if strings.Contains(said, phrase) {
			return true
		}
	}
	return false
}

func (c *Client) sshConfig(ctx context.Context, endpoint *transport.Endpoint, address string, repository Repository) (*ssh.ClientConfig, error) {
	credentials := repository.Credentials
	if credentials.IsZero() {
		return nil, &Error{Kind: Authentication, Message: "an ssh URL needs a key. Name a Secret with one in spec.source.gitRepository.auth " +
			"with type key"}
	}
	config := &ssh.ClientConfig{User: endpoint.User}
	if credentials.key != nil {
		signer, err := c.unlock(ctx, repository.Owner, credentials.key)
		if err != nil {
			return nil, credentials.refused(err)
		}
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(signer)}
	} else {
		config.User, config.Auth = credentials.username, []ssh.AuthMethod{ssh.Password(credentials.password)}
	}
	if config.User == "" {
		config.User = "git"
	}
	return config, verifyHost(config, address, credentials.knownHosts)
}

// verifyHost checks the host's key if the Secret contains known_hosts. Otherwise it accepts any key, as Kyma does.
func verifyHost(config *ssh.ClientConfig, address string, known []byte) error {
	if len(known) == 0 {
		config.HostKeyCallback = ssh.InsecureIgnoreHostKey() //nolint:gosec // documented: who wants verification adds known_hosts
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
	config.HostKeyAlgorithms = keys.HostKeyAlgorithms(address)
	config.HostKeyCallback = keys.HostKeyCallback()
	return nil
}
