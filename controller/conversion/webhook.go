package conversion

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
)

// Options configures the address and certificate of the webhook.
type Options struct {
	// Address is host:port; empty: there is no webhook.
	Address string
	// CertFile and KeyFile hold its certificate. They are read at each handshake, so that a renewal needs no restart.
	CertFile, KeyFile string
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Address, "conversion-address", "address of the webhook that converts Functions of v1alpha1; empty: none")
	fs.String(&o.CertFile, "conversion-tls-cert", "file with the certificate of --conversion-address")
	fs.String(&o.KeyFile, "conversion-tls-key", "file with the key of that certificate")
	fs.Require(!o.Enabled() || o.CertFile != "" && o.KeyFile != "", "--conversion-address needs --conversion-tls-cert and --conversion-tls-key")
}

// Enabled reports whether v1alpha1 is served.
func (o *Options) Enabled() bool { return o.Address != "" }

const (
	// path is the same as Kyma's.
	path = "/convert/functions"

	readTimeout    = 5 * time.Second
	maxConnections = 256
)

// server is the webhook of one replica of the controller. All replicas serve it.
type server struct {
	address     string
	certificate *daemon.Certificate
	handler     *Handler
	listener    net.Listener // set by tests
	log         logr.Logger
}

// Setup adds the webhook to a manager. files are the CustomResourceDefinitions of the release, whose rules it applies.
func Setup(manager ctrl.Manager, options Options, files [][]byte) error {
	definitions, err := crdschema.Definitions(files)
	if err != nil {
		return err
	}
	log := manager.GetLogger().WithName("conversion")
	certificate, err := daemon.NewCertificate("the conversion webhook", options.CertFile, options.KeyFile, log)
	if err != nil {
		return err
	}
	s := &server{
		address: options.Address, certificate: certificate, log: log,
		handler: NewHandler(definitions[v1alpha2.GroupVersion.WithKind("Function")]),
	}
	if err := manager.Add(s); err != nil {
		return fmt.Errorf("set up the conversion webhook: %w", err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *server) Start(ctx context.Context) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.Get, NextProtos: []string{"h2", "http/1.1"}}
	mux := http.NewServeMux()
	mux.Handle("POST "+path, s.handler)
	return daemon.Serve(ctx, daemon.Server{
		Name: "conversion", Addr: s.address, Listener: s.listener, Handler: mux, ReadTimeout: readTimeout, MaxConnections: maxConnections,
		TLS: func(net.Conn) *tls.Config { return config },
	}, s.log)
}

const (
	// maxBody bounds the length of a ConversionReview. Clients page longer lists.
	maxBody = 8 << 20
	// copies is how often a body is in memory while it is processed: as received, decoded, converted and encoded.
	copies = 4
	// maxMemory bounds all of that. One caller gets at most half of it. Each request has ownMemory in addition, so that
	// a single Function is converted whatever other requests hold.
	maxMemory = 2 * copies * maxBody
	ownMemory = copies * chunk
	chunk     = 64 << 10
	timeout   = 10 * time.Second

	// maxRequests bounds the requests that are read concurrently, of which a caller has at most as many as it leaves free;
	// maxTurns bounds those that use CPU.
	maxRequests = 128
	maxTurns    = 2

	// Bounds of a decoded body. The API server stores no object of more than 1.5 MiB.
	maxValues       = maxBody / 16
	maxDepth        = 100
	maxObjects      = 10_000
	maxObject       = 4 << 20
	maxObjectValues = 20_000
	maxAnswer       = 2 * maxBody
)

var (
	errBusy    = errors.New("too many concurrent ConversionReviews")
	errUnread  = errors.New("the body cannot be read")
	errShape   = errors.New("the ConversionReview has more than 524288 values, or they are nested too deeply: request the list in pages (limit)")
	errObjects = errors.New("the ConversionReview has more than 10000 objects: request the list in pages (limit)")
)

// Handler answers ConversionReviews.
type Handler struct {
	rules    *crdschema.Definition
	memory   *fair.Budget
	requests *fair.Pool
	// turns limits the work that takes CPU: decoding, each object, encoding. A caller has one turn at a time, and is
	// charged for its duration, so that the waiting caller that has used the least time goes first.
	turns *fair.Pool
}

// NewHandler returns a Handler that validates by the rules of v1alpha2.
func NewHandler(rules *crdschema.Definition) *Handler {
	return &Handler{
		rules: rules, memory: fair.NewBudget(maxMemory, ownMemory),
		requests: fair.NewPool(fair.Limits{Total: maxRequests, Waiting: 4 * maxRequests}),
		turns:    fair.NewPool(fair.Limits{Total: maxTurns, PerKey: 1, Waiting: 2 * maxRequests}),
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	caller, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		caller = r.RemoteAddr
	}
	if h.requests.Acquire(ctx.Done(), caller, 1) != nil {
		refuse(w, errBusy)
		return
	}
	defer h.requests.Release(caller, 1)
	share := h.memory.Share(caller)
	body, taken, err := read(http.MaxBytesReader(w, r.Body, maxBody), share)
	defer func() { share.Release(taken) }()
	if err != nil {
		refuse(w, err)
		return
	}
	text, err := h.review(ctx, caller, body)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) //nolint:gosec // JSON, as its type says; the caller may be gone
}

// turn runs work when it is the caller's turn.
func (h *Handler) turn(ctx context.Context, caller string, work func()) error {
	if h.turns.Acquire(ctx.Done(), caller, 1) != nil {
		return errBusy
	}
	began := time.Now()
	defer func() {
		h.turns.Charge(caller, time.Since(began).Microseconds())
		h.turns.Release(caller, 1)
	}()
	work()
	return nil
}

// read charges a body as it arrives: for its bytes, and for the values that they decode to.
func read(from io.Reader, share *fair.Share) (body []byte, taken int64, err error) {
	buffer := make([]byte, chunk)
	shape := fair.JSONCounter{Limits: fair.JSONLimits{Values: maxValues, Depth: maxDepth}}
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			need := int64(n) * copies
			got := share.Acquire(need, need)
			taken += got
			if got < need {
				return nil, taken, errBusy
			}
			if !shape.Add(buffer[:n]) {
				return nil, taken, errShape
			}
			body = append(body, buffer[:n]...)
		}
		if errors.Is(err, io.EOF) {
			return body, taken, nil
		}
		if err != nil {
			return nil, taken, fmt.Errorf("%w: %w", errUnread, err)
		}
	}
}

func refuse(w http.ResponseWriter, err error) {
	tooLarge := &http.MaxBytesError{}
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("the ConversionReview has more than %d MiB: request the list in pages (limit)", maxBody>>20), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errShape), errors.Is(err, errObjects):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errUnread):
		http.Error(w, errUnread.Error(), http.StatusBadRequest)
	case errors.Is(err, errNoReview):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, "cannot encode the response", http.StatusInternalServerError)
	}
}
