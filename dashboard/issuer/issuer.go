package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-logr/logr"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/rouse-run/rouse/dashboard"
)

// Options describe an issuer, and the dashboard as its client.
type Options struct {
	// URL is the issuer, as its tokens and the API server name it.
	URL string
	// Name is its name on the login page; empty: its host.
	Name string
	// ClientID is the client, which is the audience of the tokens.
	ClientID string
	// SecretFile has the client's secret, and is read for each login; empty: the client is public.
	SecretFile string
	// Scopes are asked for besides openid.
	Scopes []string
	// CA are certificates in PEM form that are trusted besides the public ones.
	CA []byte
	// Home is the origin at which browsers reach the dashboard.
	Home string
}

// Issuer is an issuer of OpenID Connect. It implements dashboard.Issuer, and is safe for concurrent use.
type Issuer struct {
	options Options
	client  *http.Client
	log     logr.Logger
	flights singleflight.Group

	mu    sync.Mutex
	found *metadata
	at    time.Time
}

const (
	// metadataAge is how long an issuer's metadata are used before they are read again.
	metadataAge = time.Hour
	maxSecret   = 4 << 10
)

// New returns an Issuer. It sends no request.
func New(options Options, log logr.Logger) (*Issuer, error) {
	at, err := url.Parse(options.URL)
	if err != nil || !isSecure(options.URL) || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("the URL of the issuer has to be written as its tokens do, as https://issuer.example.com")
	}
	if !isOrigin(options.Home) {
		return nil, errors.New("the address of the dashboard has to be its origin in browsers, as https://rouse.example.com, without a path")
	}
	if options.ClientID == "" {
		return nil, errors.New("the issuer needs a client ID")
	}
	client, err := newClient(options.CA)
	if err != nil {
		return nil, fmt.Errorf("certificates of the issuer: %w", err)
	}
	options.Name = cmp.Or(options.Name, at.Host)
	return &Issuer{options: options, client: client, log: log}, nil
}

// isOrigin reports whether a text is an origin at which browsers keep Secure cookies.
func isOrigin(text string) bool {
	at, err := url.Parse(text)
	return err == nil && text == strings.ToLower(at.Scheme+"://"+at.Host) && at.Host != "" && (at.Scheme == "https" || at.Scheme == "http" && isLoopback(at.Hostname()))
}

// isLoopback reports whether browsers take a host for their own machine, and keep Secure cookies of it without TLS.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Name implements dashboard.Issuer.
func (i *Issuer) Name() string { return i.options.Name }

// Home implements dashboard.Issuer.
func (i *Issuer) Home() string { return i.options.Home }

// metadata is the discovery document of an issuer.
type metadata struct {
	provider *oidc.Provider

	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	EndSession    string   `json:"end_session_endpoint"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"`
}

// metadata returns the issuer's metadata, which are read once for all who wait. Older ones are used while the issuer is away.
func (i *Issuer) metadata(ctx context.Context) (*metadata, error) {
	i.mu.Lock()
	found, at := i.found, i.at
	i.mu.Unlock()
	if found != nil && time.Since(at) < metadataAge {
		return found, nil
	}
	flight := i.flights.DoChan("", func() (any, error) {
		read, err := i.readMetadata(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.found, i.at = read, time.Now()
		return read, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case landed := <-flight:
		if read, is := landed.Val.(*metadata); is {
			return read, nil
		}
		if found != nil {
			return found, nil
		}
		return nil, landed.Err
	}
}

func (i *Issuer) readMetadata(ctx context.Context) (*metadata, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.options.URL)
	if err != nil {
		return nil, err
	}
	read := &metadata{provider: provider}
	if err := provider.Claims(read); err != nil {
		return nil, fmt.Errorf("the metadata are of another shape: %w", err)
	}
	for _, address := range []string{read.Authorization, read.Token, read.Keys} {
		if !isSecure(address) {
			return nil, errInsecure
		}
	}
	return read, nil
}

func isSecure(address string) bool {
	at, err := url.Parse(address)
	return err == nil && at.Scheme == "https" && at.Host != "" && at.User == nil
}

// config returns the dashboard as a client of the issuer.
func (i *Issuer) config(of *metadata) (*oauth2.Config, error) {
	config := &oauth2.Config{
		ClientID: i.options.ClientID, RedirectURL: i.options.Home + dashboard.CallbackPath, Endpoint: of.provider.Endpoint(),
		Scopes: append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(i.options.Scopes), func(s string) bool { return s == oidc.ScopeOpenID })...),
	}
	config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	if i.options.SecretFile == "" {
		return config, nil
	}
	if len(of.Methods) == 0 || slices.Contains(of.Methods, "client_secret_basic") {
		config.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	secret, err := readSecret(i.options.SecretFile)
	if err != nil {
		i.log.Error(err, "the secret of the issuer's client cannot be read")
		return nil, dashboard.Error{Status: http.StatusInternalServerError, Text: "the dashboard has no client secret for " + i.options.Name + ": tell its operator"}
	}
	config.ClientSecret = secret
	return config, nil
}

func readSecret(name string) (string, error) {
	file, err := os.Open(name) //nolint:gosec // the installation names it
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxSecret))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", errors.New("the file is empty")
	}
	return secret, nil
}

// LogIn implements dashboard.Issuer.
func (i *Issuer) LogIn(ctx context.Context, s dashboard.Secrets) (string, error) {
	of, err := i.metadata(ctx)
	if err != nil {
		return "", i.away("read the metadata of the issuer", err)
	}
	config, err := i.config(of)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(s.State, oidc.Nonce(s.Nonce), oauth2.S256ChallengeOption(s.Verifier)), nil
}

// LogOut implements dashboard.Issuer. The address names the client and not the user: a hint would be the user's token in an address.
func (i *Issuer) LogOut() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.found == nil || !isSecure(i.found.EndSession) {
		return ""
	}
	at, _ := url.Parse(i.found.EndSession) // isSecure has parsed it
	query := at.Query()
	query.Set("client_id", i.options.ClientID)
	query.Set("post_logout_redirect_uri", i.options.Home+"/")
	at.RawQuery = query.Encode()
	return at.String()
}

// away returns what the user is told when the issuer does not answer as it should.
func (i *Issuer) away(doing string, err error) error {
	i.log.Info("the issuer does not answer as it should", "doing", doing, "reason", reasonOf(err))
	name := i.options.Name
	text := name + " does not answer: try again in a few seconds, or log in with a token of Kubernetes"
	if _, other := errors.AsType[*oidc.IssuerMismatchError](err); other {
		text = name + " calls itself by another address than the dashboard does: its operator has to set dashboard.oidc.issuer as the issuer writes it"
	}
	return dashboard.Error{Status: http.StatusServiceUnavailable, Text: text}
}

// reasonOf returns an error without what the issuer has answered, which could be anything.
func reasonOf(err error) string {
	if refused, is := errors.AsType[*oauth2.RetrieveError](err); is {
		return fmt.Sprintf("status %d, error %s", refused.Response.StatusCode, wordOf(refused.ErrorCode))
	}
	if mismatch, is := errors.AsType[*oidc.IssuerMismatchError](err); is {
		return mismatch.Error()
	}
	if failed, is := errors.AsType[*url.Error](err); is {
		return failed.Err.Error()
	}
	if failed, is := errors.AsType[net.Error](err); is {
		return failed.Error()
	}
	const most = 200
	return err.Error()[:min(len(err.Error()), most)]
}
