package broker

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// securityOptions prove to the server who we are, and check who it is. All files
// are read again at each connect, so that what is rotated needs no restart; what
// cannot be read at the start is an error at once.
func (c *Conn) securityOptions(o Options) ([]nats.Option, error) {
	var options []nats.Option
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" {
		options = append(options, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	login, err := c.login(o)
	if err != nil {
		return nil, err
	}
	return append(options, login...), nil
}

func (c *Conn) login(o Options) ([]nats.Option, error) {
	switch {
	case o.CredsFile != "":
		if _, err := readSecret(o.CredsFile); err != nil {
			return nil, fmt.Errorf("read --nats-creds: %w", err)
		}
		return []nats.Option{nats.UserCredentials(o.CredsFile)}, nil
	case o.NKeyFile != "":
		return c.nkeyLogin(o.NKeyFile)
	case o.TokenFile != "":
		token, err := newSecretFile(o.TokenFile, c.log)
		if err != nil {
			return nil, fmt.Errorf("read --nats-token-file: %w", err)
		}
		return []nats.Option{nats.TokenHandler(token.read)}, nil
	case o.PasswordFile != "":
		password, err := newSecretFile(o.PasswordFile, c.log)
		if err != nil {
			return nil, fmt.Errorf("read --nats-password-file: %w", err)
		}
		return []nats.Option{nats.UserInfoHandler(func() (string, string) { return o.User, password.read() })}, nil
	default:
		return nil, nil
	}
}

// secretFile is a file with one secret.
type secretFile struct {
	path string
	log  logr.Logger
	last atomic.Pointer[string]
}

func newSecretFile(path string, log logr.Logger) (*secretFile, error) {
	f := &secretFile{path: path, log: log}
	content, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	text := string(content)
	f.last.Store(&text)
	return f, nil
}

// read returns what the file holds now, or held before when it cannot be read.
func (f *secretFile) read() string {
	content, err := readSecret(f.path)
	if err != nil {
		f.log.Error(err, "cannot read a secret for NATS, using the one from before")
		return *f.last.Load()
	}
	text := string(content)
	f.last.Store(&text)
	return text
}

func readSecret(path string) ([]byte, error) {
	content, err := os.ReadFile(path) //nolint:gosec // a path that the operator chose
	if err != nil {
		return nil, err
	}
	if content = bytes.TrimSpace(content); len(content) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return content, nil
}

// nkeyLogin signs with the seed in the file. The client library takes the public
// key once and for all, so a dialler puts the key of today in its place: it runs
// at each connect, before the library speaks with the server.
func (c *Conn) nkeyLogin(path string) ([]nats.Option, error) {
	public, err := publicKey(path)
	if err != nil {
		return nil, fmt.Errorf("read --nats-nkey: %w", err)
	}
	sign := func(nonce []byte) ([]byte, error) {
		pair, err := keyPair(path)
		if err != nil {
			return nil, err
		}
		defer pair.Wipe()
		return pair.Sign(nonce)
	}
	return []nats.Option{
		nats.Nkey(public, sign),
		nats.SetCustomDialer(&nkeyDialer{path: path, client: &c.client, log: c.log}),
	}, nil
}

type nkeyDialer struct {
	path   string
	client *atomic.Pointer[nats.Conn]
	log    logr.Logger
}

// Dial implements nats.CustomDialer. The library holds its lock meanwhile.
func (d *nkeyDialer) Dial(network, address string) (net.Conn, error) {
	if client := d.client.Load(); client != nil {
		public, err := publicKey(d.path)
		if err != nil {
			d.log.Error(err, "cannot read the nkey for NATS, using the one from before")
		} else {
			client.Opts.Nkey = public
		}
	}
	return dial(network, address)
}

func publicKey(path string) (string, error) {
	pair, err := keyPair(path)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

var errNoUserSeed = errors.New("it holds no seed of a user (SU...)")

// keyPair reads a seed. Errors do not quote what the file holds.
func keyPair(path string) (nkeys.KeyPair, error) {
	content, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errNoUserSeed)
	}
	public, err := pair.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return nil, fmt.Errorf("%s: %w", path, errNoUserSeed)
	}
	return pair, nil
}

// inboxPrefix is what all answers to a process arrive under. Each kind of process
// has its own, so that its permission to subscribe does not cover the answers to others.
func inboxPrefix(name string) string {
	return "_INBOX_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, name)
}
