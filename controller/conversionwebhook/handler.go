package conversionwebhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/fair"
)

const (
	// maxBody is how long a ConversionReview may be. Clients page larger lists.
	maxBody = 8 << 20
	// copies is how often a body is in memory while it is answered: as it came, decoded, converted and encoded.
	copies = 4
	// maxMemory bounds all of that. One caller gets half of it at most.
	maxMemory = 2 * copies * maxBody
	chunk     = 64 << 10
	timeout   = 10 * time.Second
)

var errBusy = errors.New("too many ConversionReviews at a time")

// Handler answers ConversionReviews.
type Handler struct {
	rules  *crdschema.Definition
	memory *fair.Budget
}

// NewHandler makes a Handler that judges by the rules of v1alpha2.
func NewHandler(rules *crdschema.Definition) *Handler {
	return &Handler{rules: rules, memory: fair.NewBudget(maxMemory, 0)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	caller, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		caller = r.RemoteAddr
	}
	share := h.memory.Share(caller)
	body, taken, err := read(http.MaxBytesReader(w, r.Body, maxBody), share)
	defer func() { share.Release(taken) }()
	if err != nil {
		refuse(w, err)
		return
	}
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(body, review); err != nil || review.Request == nil {
		http.Error(w, "the body is no ConversionReview with a request", http.StatusBadRequest)
		return
	}
	answer := &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: h.answer(ctx, review.Request)}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "the answer cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a caller that is gone misses nothing
}

// read counts a body as it arrives.
func read(from io.Reader, share *fair.Share) (body []byte, taken int64, err error) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			need := int64(n) * copies
			got := share.Acquire(need, need)
			taken += got
			if got < need {
				return nil, taken, errBusy
			}
			body = append(body, buffer[:n]...)
		}
		if errors.Is(err, io.EOF) {
			return body, taken, nil
		}
		if err != nil {
			return nil, taken, fmt.Errorf("read the body: %w", err)
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
	default:
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
	}
}

// answer converts all objects, or says why one of them cannot be.
func (h *Handler) answer(ctx context.Context, request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for i := range request.Objects {
		err := ctx.Err()
		if err == nil {
			var converted []byte
			if converted, err = h.convert(ctx, request.Objects[i].Raw, request.DesiredAPIVersion); err == nil {
				response.ConvertedObjects = append(response.ConvertedObjects, rawOf(converted))
				continue
			}
		}
		response.ConvertedObjects = nil
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid}
		break
	}
	return response
}
