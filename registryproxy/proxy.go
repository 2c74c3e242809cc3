package registryproxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/registry"
)

// Deps are what the proxy works with.
type Deps struct {
	// Username and Password are the controller's.
	Username, Password string
	// Key is what the passwords of tenants follow from.
	Key      []byte
	Registry prometheus.Registerer
	Log      logr.Logger
	// Store is noted what requests name; nil: the registry's store is not swept.
	Store interface{ Note(r *http.Request) }
}

// Proxy is an http.Handler.
type Proxy struct {
	deps    Deps
	options Options
	budgets *budgets
	forward *httputil.ReverseProxy
	metrics *metrics
}

// New makes no request.
func New(deps Deps, options Options) (*Proxy, error) {
	upstream, err := url.Parse(options.Upstream)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		deps: deps, options: options, budgets: newBudgets(options.bytesPerHour(), options.Requests), metrics: newMetrics(deps.Registry),
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Del("Authorization")
		},
		ErrorHandler: p.unreachable,
	}
	return p, nil
}

// maxManifest is what the specification asks registries to take.
const maxManifest = 4 << 20

// ServeHTTP lets the registry answer what the caller may ask.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && isRead(r.Method) { // the probes', which ask the registry for its health
		p.forward.ServeHTTP(w, r)
		return
	}
	account, ok := p.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Basic realm="rouse"`)
		p.refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "log in with the account of a namespace")
		return
	}
	access := Decide(account, r.Method, r.URL)
	if !access.Allowed {
		p.refuse(w, http.StatusForbidden, "DENIED", "this account may not do that; it reads and writes the repositories of its own namespace")
		return
	}
	r.URL.RawQuery = access.Query
	if access.Digest != "" && !p.sumsUp(w, r, access.Digest) {
		return
	}
	if !account.Admin {
		budget := p.budgets.of(account.Name)
		if !budget.enter() {
			p.limit(w, "too many requests of this namespace at a time")
			return
		}
		defer budget.leave()
		r.Body = &metered{body: r.Body, budget: budget}
	}
	if p.deps.Store != nil {
		p.deps.Store.Note(r)
	}
	p.metrics.count(allowed)
	p.forward.ServeHTTP(w, r)
}

// authenticate returns who asks. Hashes are compared, because the comparison of texts leaks their lengths.
func (p *Proxy) authenticate(r *http.Request) (Account, bool) {
	username, password, ok := r.BasicAuth()
	if !ok {
		return Account{}, false
	}
	account, want := Account{Name: username}, ""
	switch {
	case username == p.deps.Username:
		account.Admin, want = true, p.deps.Password
	case registry.IsAccount(username):
		want = registry.Password(p.deps.Key, username)
	default:
		return Account{}, false
	}
	given, wanted := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(want))
	return account, want != "" && subtle.ConstantTimeCompare(given[:], wanted[:]) == 1
}

// sumsUp reads the manifest of a copy and compares it with the digest in its name.
func (p *Proxy) sumsUp(w http.ResponseWriter, r *http.Request, digest string) bool {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		p.refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "the manifest is too large")
		return false
	}
	sum := sha256.Sum256(text)
	if "sha256:"+hex.EncodeToString(sum[:]) != digest {
		p.refuse(w, http.StatusForbidden, "DENIED", "the manifest is not the one that the tag of the copy names")
		return false
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return true
}

// refuse answers as the specification says.
func (p *Proxy) refuse(w http.ResponseWriter, status int, code, message string) {
	outcome := denied
	if status == http.StatusUnauthorized {
		outcome = unauthenticated
	}
	p.metrics.count(outcome)
	answer(w, status, code, message)
}

func (p *Proxy) limit(w http.ResponseWriter, message string) {
	p.metrics.count(limited)
	w.Header().Set("Retry-After", "10")
	answer(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", message)
}

func answer(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	w.Header().Set("Connection", "close") // what else the caller would send is not read
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"errors":[{"code":"`+code+`","message":"`+message+`"}]}`+"\n")
}

// unreachable answers for a registry that does not, or for a body that may not be sent.
func (p *Proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errSpent) {
		p.limit(w, "this namespace has sent too much within an hour")
		return
	}
	if r.Context().Err() == nil {
		p.deps.Log.Error(err, "the registry does not answer the proxy")
	}
	answer(w, http.StatusBadGateway, "UNAVAILABLE", "the registry does not answer")
}

var errSpent = errors.New("the account has spent its bytes")

// metered charges an account for what it sends, as it comes.
type metered struct {
	body   io.ReadCloser
	budget *budget
}

func (m *metered) Read(into []byte) (int, error) {
	n, err := m.body.Read(into)
	if n > 0 && !m.budget.spend(n) {
		return 0, errSpent
	}
	return n, err
}

func (m *metered) Close() error { return m.body.Close() }
