package registryproxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
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

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/registry"
)

// Options are the address of the registry and the limits of an account.
type Options struct {
	// Upstream is the registry's address, which only the proxy can reach.
	Upstream string
	// BytesPerHour bounds the bytes that a tenant may push within an hour.
	BytesPerHour int64
	// ImagesPerHour bounds the manifests that a tenant may push within an hour.
	ImagesPerHour int
	// Requests bounds the concurrent requests of all tenants. A tenant gets no more of them than it leaves free.
	Requests int
}

// DefaultOptions returns the chart's options.
func DefaultOptions() Options {
	return Options{Upstream: "http://127.0.0.1:5001", BytesPerHour: 5 << 30, ImagesPerHour: 1000, Requests: 256}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	upstream, err := url.Parse(o.Upstream)
	fs.String(&o.Upstream, "upstream", "address of the registry").
		Must(err == nil && upstream.Host != "", "be a URL such as http://127.0.0.1:5001")
	fs.Size(&o.BytesPerHour, "bytes-per-hour",
		"how much one namespace may push within an hour; each upload costs 64Ki besides, and each image 128Ki").MoreThan(0)
	fs.Int(&o.ImagesPerHour, "images-per-hour", "how many images one namespace may push within an hour").AtLeast(1)
	fs.Int(&o.Requests, "max-requests",
		"how many requests of all namespaces may run at a time, of which one has no more than it leaves free").AtLeast(1)
}

// The outcomes of requests, as in the metric.
const (
	allowed         = "allowed"
	denied          = "denied"
	unauthenticated = "unauthenticated"
	limited         = "limited"
)

type metrics struct{ requests *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rouse_registry_requests_total", Help: "Requests to the registry by what the proxy before it decided.",
	}, []string{"outcome"})}
	registerer.MustRegister(m.requests)
	for _, outcome := range []string{allowed, denied, unauthenticated, limited} {
		m.requests.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) count(outcome string) { m.requests.WithLabelValues(outcome).Inc() }

// Deps holds the dependencies of the proxy.
type Deps struct {
	// Username and Password are the controller's credentials.
	Username, Password string
	// Key is the key from which the passwords of tenants are derived.
	Key      []byte
	Registry prometheus.Registerer
	Log      logr.Logger
	// Store is notified of what requests name; nil when the registry's store is not swept.
	Store interface{ Note(r *http.Request) }
}

// Proxy is the authorizing reverse proxy, an http.Handler.
type Proxy struct {
	deps    Deps
	options Options
	budgets *budgets
	forward *httputil.ReverseProxy
	metrics *metrics
}

// New returns a Proxy. It makes no request.
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

// ServeHTTP forwards the requests that the caller is authorized for.
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

// probe forwards health checks to the registry, without authentication and in turn by address.
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

// serveTenant forwards a request within the account's budget. It reads nothing of the request before.
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

// serveManifest limits concurrent requests for manifests, which the registry holds in memory.
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

// serveUpload tracks open uploads, because each takes files in the registry's store until it ends.
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

// status records the status of a response.
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

// authenticate returns the caller. It compares hashes, because comparing strings leaks their lengths.
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

// refuse sends an error in the format of the specification.
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
	w.Header().Set("Connection", "close") // the rest of the request is not read
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"errors":[{"code":"`+code+`","message":"`+message+`"}]}`+"\n")
}

// unreachable responds when the registry does not, or when the body may not be sent.
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

// metered charges an account for the bytes of a body as they arrive.
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

const (
	// maxManifest is the size that the specification requires registries to accept.
	maxManifest = 4 << 20
	// maxValues and maxDepth bound what the registry makes of one when it reads it: an empty object of two bytes becomes a layer's
	// description of a hundred. An image of a hundred layers has a thousand values.
	maxValues = 20_000
	maxDepth  = 32
	chunk     = 64 << 10
)

var (
	errManifestMemory = errors.New("too many manifests of this namespace arrive at a time")
	errManifestSize   = errors.New("the manifest has more than 4 MiB")
	errManifestForm   = errors.New("the manifest has more than 20000 values, or they are nested too deeply")
	errManifestOther  = errors.New("the manifest is not the one that the tag of the copy names")
)

// manifest is a received manifest, in parts whose memory the share acquired.
type manifest struct {
	parts [][]byte
	size  int64
	sum   string
}

// readManifest reads a manifest as the share gets memory for it. The caller releases the memory, also after an error.
func readManifest(from io.Reader, share *fair.Share) (found manifest, acquired int64, err error) {
	sum, shape := sha256.New(), fair.JSONCounter{Limits: fair.JSONLimits{Values: maxValues, Depth: maxDepth}}
	for {
		if share.Acquire(chunk, chunk) < chunk {
			return found, acquired, errManifestMemory
		}
		acquired += chunk
		part := make([]byte, chunk)
		n, err := io.ReadFull(from, part)
		part = part[:n]
		_, _ = sum.Write(part) // a hash takes everything
		found.parts, found.size = append(found.parts, part), found.size+int64(n)
		switch {
		case found.size > maxManifest:
			return found, acquired, errManifestSize
		case !shape.Add(part):
			return found, acquired, errManifestForm
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			found.sum = "sha256:" + hex.EncodeToString(sum.Sum(nil))
			return found, acquired, nil
		case err != nil:
			return found, acquired, err
		}
	}
}

// body returns a reader of the parts.
func (m manifest) body() io.ReadCloser {
	var readers []io.Reader
	for _, part := range m.parts {
		readers = append(readers, bytes.NewReader(part))
	}
	return io.NopCloser(io.MultiReader(readers...))
}

// takeManifest reads the manifest that a request pushes, and replaces the body by it. When the manifest may not be forwarded it responds
// with an error and returns false. release releases the memory.
func (p *Proxy) takeManifest(w http.ResponseWriter, r *http.Request, account, digest string) (release func(), ok bool) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.budgets.limits.manifestTimeout)) // else it has as long as a layer
	share := p.budgets.memory.Share(account)
	found, acquired, err := readManifest(r.Body, share)
	release = func() { share.Release(acquired) }
	if err == nil && digest != "" && found.sum != digest {
		err = errManifestOther
	}
	if err != nil {
		p.refuseManifest(w, err)
		return release, false
	}
	r.Body, r.ContentLength, r.TransferEncoding = found.body(), found.size, nil
	return release, true
}

func (p *Proxy) refuseManifest(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errManifestMemory):
		p.limit(w, err.Error())
	case errors.Is(err, errSpent):
		p.limit(w, spentText)
	case errors.Is(err, errManifestSize):
		p.refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", err.Error())
	case errors.Is(err, errManifestForm):
		p.refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", err.Error())
	case errors.Is(err, errManifestOther):
		p.refuse(w, http.StatusForbidden, "DENIED", err.Error())
	default:
		p.refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", "the manifest did not arrive whole and in time")
	}
}
