package conversion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// maxBody is how long a ConversionReview may be. Clients page larger lists.
	maxBody = 8 << 20
	// copies is how often a body is in memory while it is answered: as it came, decoded, converted and encoded.
	copies = 4
	// maxMemory bounds all of that. One caller gets half of it at most. Each request has ownMemory besides, so that one Function is
	// converted whatever others hold.
	maxMemory = 2 * copies * maxBody
	ownMemory = copies * chunk
	chunk     = 64 << 10
	timeout   = 10 * time.Second

	// maxRequests are read at a time, of which a caller has no more than it leaves free; maxTurns are worked on.
	maxRequests = 128
	maxTurns    = 2

	// The bounds of what a body becomes. The API server stores no object of more than 1.5 MiB.
	maxValues       = maxBody / 16
	maxDepth        = 100
	maxObjects      = 10_000
	maxObject       = 4 << 20
	maxObjectValues = 20_000
	maxAnswer       = 2 * maxBody
)

var (
	errBusy    = errors.New("too many ConversionReviews at a time")
	errUnread  = errors.New("the body cannot be read")
	errShape   = errors.New("the ConversionReview has more than 524288 values, or they are nested too deeply: ask for the list in pages (limit)")
	errObjects = errors.New("the ConversionReview has more than 10000 objects: ask for the list in pages (limit)")
)

// Handler answers ConversionReviews.
type Handler struct {
	rules    *crdschema.Definition
	memory   *fair.Budget
	requests *fair.Pool
	// turns are for what takes CPU: decoding, each object, encoding. A caller has one at a time, and pays for its duration, so that of
	// those that wait the one comes first that has taken least.
	turns *fair.Pool
}

// NewHandler makes a Handler that judges by the rules of v1alpha2.
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
	_, _ = w.Write(text) //nolint:gosec // JSON, as its type says; a caller that is gone misses nothing
}

// turn works for a caller when it is its turn.
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

// read counts a body as it arrives: its bytes, and what they become.
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
		http.Error(w, fmt.Sprintf("the ConversionReview has more than %d MiB: ask for the list in pages (limit)", maxBody>>20), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errShape), errors.Is(err, errObjects):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errUnread):
		http.Error(w, errUnread.Error(), http.StatusBadRequest)
	case errors.Is(err, errNoReview):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
	}
}
