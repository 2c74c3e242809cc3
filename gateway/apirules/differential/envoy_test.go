package differential

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/testing/output"
)

// startTimeout is long, as a machine under load compiles hundreds of expressions slowly.
const startTimeout = time.Minute

// envoy is a process that ends with the test.
type envoy struct {
	command *exec.Cmd
	output  output.Buffer
	ended   chan struct{}
}

// startEnvoy returns when Envoy accepts connections at the address.
func startEnvoy(t *testing.T, config object, address string) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	require.NotEmpty(t, assets, `run "make test" or set KUBEBUILDER_ASSETS`)
	binary, err := exec.LookPath(filepath.Join(assets, "envoy"))
	require.NoError(t, err, `run "make test", or "go run -C e2e/cluster . assets" once more`)

	text, err := json.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "envoy.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))

	line := guard([]string{binary, "--config-path", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"})
	e := &envoy{command: exec.CommandContext(context.WithoutCancel(t.Context()), line[0], line[1:]...), ended: make(chan struct{})}
	e.command.Stdout, e.command.Stderr = &e.output, &e.output
	require.NoError(t, e.command.Start())
	go func() {
		_ = e.command.Wait()
		close(e.ended)
	}()
	t.Cleanup(func() {
		_ = e.command.Process.Kill()
		<-e.ended
	})
	e.awaitConnection(t, address)
}

func (e *envoy) awaitConnection(t *testing.T, address string) {
	t.Helper()
	dialer := net.Dialer{Timeout: time.Second}
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
			require.NoError(t, conn.Close())
			return
		}
		select {
		case <-e.ended:
			require.FailNow(t, "Envoy ended at its start", e.output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.FailNow(t, "Envoy does not start", e.output.String())
}

// guard lets the kernel end Envoy together with the test, also when the test panics.
func guard(line []string) []string {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return line
	}
	return append([]string{setpriv, "--pdeathsig", "KILL", "--"}, line...)
}

// issuer publishes its keys and signs tokens with them.
type issuer struct {
	name   string
	jwks   string // as text
	uri    string
	keys   map[string]key // by kid
	secret []byte         // a key that is published although it should be secret
}

type key struct {
	algorithm jose.SignatureAlgorithm
	private   any
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	i := &issuer{name: name, secret: make([]byte, 32), keys: map[string]key{
		"rs": {jose.RS256, rsaKey}, "ps": {jose.PS256, rsaKey}, "es": {jose.ES256, ecKey}, "ed": {jose.EdDSA, edKey},
	}}
	_, _ = rand.Read(i.secret)
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.secret, KeyID: "hs", Algorithm: "HS256"}}}
	for id, key := range i.keys {
		public := key.private.(crypto.Signer).Public()
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: id, Algorithm: string(key.algorithm), Use: "sig"})
	}
	text, err := json.Marshal(set)
	require.NoError(t, err)
	i.jwks = string(text)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(server.Close)
	i.uri = server.URL + "/keys"
	return i
}

// authentication accepts the issuer's tokens.
func (i *issuer) authentication() *v2.JWTAuthentication {
	return &v2.JWTAuthentication{Issuer: i.name, JWKSURI: i.uri}
}

func (i *issuer) accepted(authorizations ...*v2.JWTAuthorization) v2.JWT {
	return v2.JWT{Authentications: []*v2.JWTAuthentication{i.authentication()}, Authorizations: authorizations}
}

type claims map[string]any

// claims returns the claims of a valid token with changes. A nil removes a claim.
func (i *issuer) claims(changes claims) claims {
	all := claims{"iss": i.name, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// token is a good one with changes, signed by RS256.
func (i *issuer) token(changes claims) string { return i.sign("rs", i.claims(changes)) }

func (i *issuer) sign(id string, payload claims) string {
	key := i.keys[id]
	return signed(jose.SigningKey{Algorithm: key.algorithm, Key: jose.JSONWebKey{Key: key.private, KeyID: id}}, payload)
}

func signed(by jose.SigningKey, payload claims) string {
	signer := must(jose.NewSigner(by, (&jose.SignerOptions{}).WithType("JWT")))
	return must(must(signer.Sign(must(json.Marshal(payload)))).CompactSerialize())
}

// headed signs a token with a header of any form, by RS256.
func (i *issuer) headed(header, payload string) string {
	text := encode(header) + "." + encode(payload)
	hashed := crypto.SHA256.New()
	hashed.Write([]byte(text))
	signature := must(rsa.SignPKCS1v15(rand.Reader, i.keys["rs"].private.(*rsa.PrivateKey), crypto.SHA256, hashed.Sum(nil)))
	return text + "." + encode(string(signature))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Backends are told by a header of the request how to answer.
const behaviour = "X-Backend"

// unseen are the headers of requests that need not be alike: both gateways write their own.
func unseen(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-envoy-") ||
		slices.Contains([]string{"x-request-id", "content-length"}, name)
}

// startBackend answers with what it was sent, and returns its port.
func startBackend(t *testing.T, name string) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, name) }))
	t.Cleanup(server.Close)
	return portOf(t, server)
}

func portOf(t *testing.T, server *httptest.Server) int {
	t.Helper()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	return port
}

func answer(w http.ResponseWriter, r *http.Request, name string) {
	text := describe(r, name)
	kind, value, _ := strings.Cut(r.Header.Get(behaviour), "=")
	switch kind {
	case "cors":
		for _, header := range []string{"Origin", "Methods", "Headers", "Credentials"} {
			w.Header().Set("Access-Control-Allow-"+header, "backend")
		}
		w.Header().Set("Access-Control-Expose-Headers", "backend")
		w.Header().Set("Access-Control-Max-Age", "1")
		w.Header().Set("Vary", "Origin")
	case "status":
		status, _ := strconv.Atoi(value)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		return
	case "delay":
		pause(r, value)
	case "stream":
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			pause(r, value)
		}
		return
	case "header":
		key, content, _ := strings.Cut(value, ":")
		w.Header().Add(key, content)
	case "abort":
		panic(http.ErrAbortHandler)
	case "upgrade":
		if r.Header.Get("Upgrade") != "" {
			upgrade(w, r, value)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

func pause(r *http.Request, text string) {
	length, err := time.ParseDuration(text)
	if err != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(length):
	}
}

// upgrade switches protocols and greets after a pause.
func upgrade(w http.ResponseWriter, r *http.Request, length string) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	greet := func(w *bufio.Writer, text string) {
		_, _ = w.WriteString(text)
		_ = w.Flush()
	}
	greet(buffer.Writer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
	parsed, _ := time.ParseDuration(length)
	time.Sleep(parsed)
	greet(buffer.Writer, "hello")
}

// describe is a request as a backend sees it.
func describe(r *http.Request, name string) string {
	body, _ := io.ReadAll(r.Body)
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s %s\nhost: %s\nbody: %s\n", name, r.Method, r.RequestURI, r.Host, body)
	for _, header := range slices.Sorted(maps.Keys(r.Header)) {
		if unseen(header) {
			continue
		}
		value := strings.Join(r.Header[header], ",")
		if header == "X-Forwarded-For" { // Envoy has another address of this machine in place of loopback
			value = value[:strings.LastIndexByte(value, ',')+1] + "client"
		}
		fmt.Fprintf(&text, "%s: %s\n", strings.ToLower(header), value)
	}
	return text.String()
}

// startAuthorizer allows, denies or delays as the header X-Wish requests, and sends the backend what it got.
func startAuthorizer(t *testing.T, name string) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Authorizer", name)
		w.Header().Set("Set-Cookie", "authorizer="+name)
		w.Header().Set("X-User", "alice")
		w.Header().Set("X-Saw", strings.ReplaceAll(describe(r, name), "\n", "; "))
		kind, value, _ := strings.Cut(r.Header.Get("X-Wish"), "=")
		switch kind {
		case "status":
			status, _ := strconv.Atoi(value)
			w.Header().Set("Location", "https://login.example/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "said "+name)
		case "delay":
			pause(r, value)
		case "abort":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	return portOf(t, server)
}
