package gittest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// SSH is a server that takes one key.
type SSH struct {
	// Address is the URL of the repository.
	Address string
	// KnownHosts names the host's key.
	KnownHosts []byte
}

// Key makes a private key in the form of OpenSSH.
func Key(t testing.TB) (private []byte, public ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(block), signer.PublicKey()
}

// SSH serves the repository to the owner of a key.
func (r *Repository) SSH(t testing.TB, authorized ssh.PublicKey) *SSH {
	t.Helper()
	hostKey, public := Key(t)
	signer, err := ssh.ParsePrivateKey(hostKey)
	require.NoError(t, err)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(authorized.Marshal()) {
			return nil, errors.New("not the key")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(t.Context()), "tcp", net.JoinHostPort(loopback.Host, "0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.talk(conn, config)
		}
	}()
	address := listener.Addr().String()
	return &SSH{
		Address:    "ssh://git@" + address + "/" + r.Name,
		KnownHosts: []byte(knownhosts.Line([]string{knownhosts.Normalize(address)}, public) + "\n"),
	}
}

func (r *Repository) talk(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return // a client that may not in
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, asked, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range asked {
			if request.Type != "exec" {
				_ = request.Reply(false, nil)
				continue
			}
			_ = request.Reply(true, nil)
			go r.uploadPack(channel, string(request.Payload[4:]))
		}
	}
}

// uploadPack runs what the client asked for: git-upload-pack '/name'.
func (r *Repository) uploadPack(channel ssh.Channel, asked string) {
	defer func() { _ = channel.Close() }()
	status := struct{ Code uint32 }{}
	if !strings.HasPrefix(asked, "git-upload-pack ") || !strings.Contains(asked, r.Name) {
		status.Code = 128
		_, _ = channel.Stderr().Write([]byte("fatal: repository not found\n"))
	} else {
		command := exec.Command("git", "upload-pack", r.path()) //nolint:noctx // ends with its input
		command.Stdin, command.Stdout, command.Stderr = channel, channel, channel.Stderr()
		if command.Run() != nil {
			status.Code = 1
		}
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
}
