package registryproxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"time"

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
		deps: deps, options: options, budgets: newBudgets(options, defaultLimits()), metrics: newMetrics(deps.Registry),
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

// ServeHTTP lets the registry answer what the caller may ask.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && isRead(r.Method) {
		p.probe(w, r)
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
	if account.Admin {
		p.pass(w, r)
		return
	}
	p.serveTenant(w, r, account.Name, access)
}

// probe has the registry report its health: to the kubelet, and to whoever asks, in turn by address.
func (p *Proxy) probe(w http.ResponseWriter, r *http.Request) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	leave, ok := p.budgets.wait(r.Context(), p.budgets.strangers, address)
	if !ok {
		p.limit(w, "too many requests without an account at a time")
		return
	}
	defer leave()
	r = r.WithContext(r.Context())
	r.Body, r.ContentLength = http.NoBody, 0
	p.forward.ServeHTTP(w, r)
}

// serveTenant forwards what an account has the budget for, of which nothing is read before.
func (p *Proxy) serveTenant(w http.ResponseWriter, r *http.Request, account string, access Access) {
	budget := p.budgets.of(account)
	if !budget.requests.Allow() {
		p.limit(w, "too many requests of this namespace in a second")
		return
	}
	leave, ok := p.budgets.wait(r.Context(), p.budgets.requests, account)
	if !ok {
		p.limit(w, "too many requests of this namespace at a time")
		return
	}
	defer leave()
	r = r.WithContext(r.Context()) // by the body of its own request net/http knows that a client still sends, and lets it read the answer
	r.Body = &metered{body: r.Body, budget: budget}
	switch access.Kind {
	case "manifests":
		p.serveManifest(w, r, account, budget, access)
	case "uploads":
		p.serveUpload(w, r, budget)
	default:
		p.pass(w, r)
	}
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request) {
	if p.deps.Store != nil {
		p.deps.Store.Note(r)
	}
	p.metrics.count(allowed)
	p.forward.ServeHTTP(w, r)
}

// serveManifest has few of them in the registry's memory at a time.
func (p *Proxy) serveManifest(w http.ResponseWriter, r *http.Request, account string, budget *budget, access Access) {
	if r.Method == http.MethodPut {
		switch {
		case access.Digest != "" && !budget.copies.Allow():
			p.limit(w, "this namespace has added too many copies of runtimes' images within an hour")
			return
		case access.Digest == "" && !budget.images.Allow():
			p.limit(w, "this namespace has pushed too many images within an hour (registry.internal.imagesPerHour)")
			return
		case !budget.spend(imagePrice):
			p.limit(w, spentText)
			return
		}
		release, ok := p.takeManifest(w, r, account, access.Digest)
		defer release()
		if !ok {
			return
		}
	}
	leave, ok := p.budgets.wait(r.Context(), p.budgets.manifests, account)
	if !ok {
		p.limit(w, "too many requests for manifests of this namespace at a time")
		return
	}
	defer leave()
	p.pass(w, r)
}

// serveUpload follows which uploads are open, since each takes files of the registry's store until it ends.
func (p *Proxy) serveUpload(w http.ResponseWriter, r *http.Request, budget *budget) {
	price := map[string]int{http.MethodPost: uploadPrice, http.MethodPatch: inode, http.MethodPut: inode}[r.Method]
	if price > 0 && !budget.spend(price) {
		p.limit(w, spentText)
		return
	}
	answered := &status{ResponseWriter: w}
	if r.Method != http.MethodPost {
		p.pass(answered, r)
		if answered.code == http.StatusNotFound || answered.code == http.StatusCreated || r.Method == http.MethodDelete && answered.code < 300 {
			budget.endUpload(r.URL.Path)
		}
		return
	}
	if !budget.beginUpload(time.Now()) {
		p.limit(w, "too many uploads of this namespace are open: end them, or wait until the registry gives them up, after three hours")
		return
	}
	begun := ""
	defer func() { budget.uploaded(begun, time.Now()) }()
	p.pass(answered, r)
	if answered.code == http.StatusAccepted {
		begun = path.Join(r.URL.Path, answered.Header().Get("Docker-Upload-Uuid"))
	}
}

// status is an answer whose status is looked at.
type status struct {
	http.ResponseWriter

	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

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
		p.limit(w, spentText)
		return
	}
	if r.Context().Err() == nil {
		p.deps.Log.Error(err, "the registry does not answer the proxy")
	}
	answer(w, http.StatusBadGateway, "UNAVAILABLE", "the registry does not answer")
}

var errSpent = errors.New("the account has spent its bytes")

const spentText = "this namespace has sent too much within an hour (registry.internal.bytesPerHour)"

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
