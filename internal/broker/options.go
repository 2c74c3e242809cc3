package broker

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/rouse-run/rouse/internal/flags"
)

// Options configure the connection to NATS and its authentication.
type Options struct {
	// URL is one server or several, separated by commas.
	URL string
	// Name identifies this process in the server's list of connections.
	Name string
	// At most one of CredsFile, NKeyFile, TokenFile and PasswordFile authenticates
	// us; the URL may do so instead. They are read at each connect.

	// CredsFile holds a user's JWT and key.
	CredsFile string
	// NKeyFile holds a user's seed.
	NKeyFile string
	// TokenFile holds a token.
	TokenFile string
	// User and PasswordFile belong together.
	User         string
	PasswordFile string
	// CAFile holds the roots that the server's certificate is checked with.
	CAFile string
	// CertFile and KeyFile are the client certificate; both or none.
	CertFile string
	KeyFile  string

	// requestTimeout is requestTimeout by default. Tests, which nobody waits for, leave a busy machine more time.
	requestTimeout time.Duration
}

// DefaultOptions returns options for the NATS that the chart installs.
func DefaultOptions() Options {
	return Options{URL: "nats://rouse-nats.rouse-system.svc.cluster.local:4222", Name: "rouse"}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.URL, "nats-url", "NATS server, or several separated by commas")
	for server := range strings.SplitSeq(o.URL, ",") {
		fs.Check(func() error { return validateURL(strings.TrimSpace(server)) })
	}
	fs.String(&o.CredsFile, "nats-creds", "file with NATS credentials: a user's JWT and key")
	fs.String(&o.NKeyFile, "nats-nkey", "file with the seed of a user's nkey for NATS")
	fs.String(&o.TokenFile, "nats-token-file", "file with a token for NATS")
	fs.String(&o.User, "nats-user", "user of NATS, with --nats-password-file")
	fs.String(&o.PasswordFile, "nats-password-file", "file with that user's password")
	fs.Require((o.User == "") == (o.PasswordFile == ""), "--nats-user and --nats-password-file need each other")
	logins := o.logins()
	fs.Require(len(logins) <= 1, "%s: use one of them", strings.Join(logins, ", "))
	fs.String(&o.CAFile, "nats-ca", "file with the CA certificates for NATS")
	fs.String(&o.CertFile, "nats-cert", "file with the client certificate for NATS")
	fs.String(&o.KeyFile, "nats-key", "file with the client certificate's key")
	fs.Require((o.CertFile == "") == (o.KeyFile == ""), "--nats-cert and --nats-key need each other")
}

// logins names the ways in which the options authenticate us. A client certificate
// may stand beside any of them.
func (o *Options) logins() []string {
	var found []string
	for _, login := range []struct{ flag, value string }{
		{"--nats-creds", o.CredsFile},
		{"--nats-nkey", o.NKeyFile},
		{"--nats-token-file", o.TokenFile},
		{"--nats-password-file", o.PasswordFile},
	} {
		if login.value != "" {
			found = append(found, login.flag)
		}
	}
	for server := range strings.SplitSeq(o.URL, ",") {
		if parsed, err := url.Parse(strings.TrimSpace(server)); err == nil && parsed.User != nil {
			return append(found, "user in --nats-url")
		}
	}
	return found
}

func validateURL(server string) error {
	if server == "" {
		return errors.New("--nats-url must not be empty")
	}
	parsed, err := url.Parse(server)
	if err != nil {
		// The parser's text quotes the URL, which may hold a password.
		return errors.New("--nats-url is not a URL")
	}
	switch parsed.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fmt.Errorf("--nats-url has the scheme %q, it must be nats, tls, ws or wss", parsed.Scheme)
	}
	if parsed.Hostname() == "" {
		return errors.New("--nats-url has no host")
	}
	return nil
}

// securityOptions returns the options that authenticate this process, and verify the server. All files
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

var errNoUserSeed = errors.New("the file has no seed of a user (SU...)")

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
