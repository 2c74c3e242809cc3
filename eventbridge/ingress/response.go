package ingress

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/internal/failure"
)

// response is the response to a publisher.
type response struct {
	status     int
	reason     string
	retryAfter int // seconds, 0 for none
	delayed    *delayedEvent
}

// The values of Retry-After: an outage or a full buffer is usually over soon, a full disk is not.
const (
	retrySoon  = 1
	retryLater = 10
)

// refusal returns the response to a request without a valid event. A request that was too slow, or arrived while the
// memory was exhausted, may be sent again.
func refusal(err error) response {
	switch {
	case errors.Is(err, errTooSlow):
		return response{status: http.StatusRequestTimeout, reason: err.Error(), retryAfter: retrySoon}
	case errors.Is(err, errNoMemory):
		return response{status: http.StatusTooManyRequests, reason: err.Error(), retryAfter: retrySoon}
	case errors.Is(err, ErrUnauthenticated):
		return response{status: http.StatusUnauthorized, reason: err.Error()}
	case errors.Is(err, ErrForbidden), errors.Is(err, chain.ErrExhausted):
		return response{status: http.StatusForbidden, reason: err.Error()}
	case errors.Is(err, ErrUndecided):
		return response{status: http.StatusServiceUnavailable, reason: ErrUndecided.Error(), retryAfter: retrySoon}
	default:
		return response{status: http.StatusBadRequest, reason: brief(err.Error())}
	}
}

// responseFor returns the response for the result of a publish.
func responseFor(err error) response {
	if err == nil {
		return response{status: http.StatusNoContent}
	}
	if invalid, ok := errors.AsType[*failure.InvalidEventError](err); ok {
		return response{status: http.StatusBadRequest, reason: brief(invalid.Reason)}
	}
	for _, known := range []struct {
		err        error
		status     int
		reason     string // that of Kyma's publisher proxy, if it has one
		retryAfter int
	}{
		{failure.ErrTooLarge, http.StatusBadRequest, "event is larger than the stream takes", 0},
		{failure.ErrBusy, http.StatusTooManyRequests, "too many events wait to be stored", retrySoon},
		{failure.ErrNotConnected, http.StatusBadGateway, "no connection to NATS JetStream server", retrySoon},
		{failure.ErrStorageFull, http.StatusInsufficientStorage, "insufficient resources on target stream", retryLater},
		{failure.ErrNearlyFull, http.StatusInsufficientStorage, failure.ErrNearlyFull.Error(), retryLater},
		{failure.ErrNoStream, http.StatusGatewayTimeout, "cannot send to stream", retrySoon},
		{failure.ErrInsufficientResources, http.StatusServiceUnavailable, "the account or the server of NATS has no room for more", retryLater},
		{failure.ErrInProcess, http.StatusServiceUnavailable, failure.ErrInProcess.Error(), retrySoon},
		{failure.ErrDelayedOtherwise, http.StatusConflict, failure.ErrDelayedOtherwise.Error(), 0},
		{failure.ErrDelayedShare, http.StatusInsufficientStorage, failure.ErrDelayedShare.Error(), retryLater},
		{failure.ErrTimeout, http.StatusServiceUnavailable, "no answer from the stream in time", retrySoon},
	} {
		if errors.Is(err, known.err) {
			return response{status: known.status, reason: known.reason, retryAfter: known.retryAfter}
		}
	}
	if api, ok := errors.AsType[*failure.APIError](err); ok && api.Code >= 400 && api.Code < 600 {
		resp := response{status: api.Code, reason: api.Description}
		if api.Code == http.StatusServiceUnavailable || api.Code == http.StatusTooManyRequests {
			resp.retryAfter = retrySoon
		}
		return resp
	}
	return response{status: http.StatusInternalServerError, reason: "internal error on backend"}
}

func respond(w http.ResponseWriter, resp response) {
	if resp.status == http.StatusNoContent {
		w.WriteHeader(resp.status)
		return
	}
	if resp.delayed != nil {
		respondJSON(w, resp.status, 0, resp.delayed)
		return
	}
	start(w, resp.status, resp.retryAfter, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, resp.reason+"\n") // the publisher may be gone
}

func respondJSON(w http.ResponseWriter, status, retryAfter int, body any) {
	start(w, status, retryAfter, typeJSON)
	_, _ = w.Write(encode(body)) // the publisher may be gone
}

// encode encodes a response, which consists of strings, numbers and lists of them.
func encode(body any) []byte {
	var answer bytes.Buffer
	_ = json.NewEncoder(&answer).Encode(body)
	return answer.Bytes()
}

// longestQuote bounds the bytes of a quote from a request in a response.
const longestQuote = 512

// brief truncates a text that is too long to be quoted. The copy does not hold the request's memory.
func brief(text string) string {
	if len(text) <= longestQuote {
		return text
	}
	return strings.ToValidUTF8(text[:longestQuote], "") + "..."
}

// start writes the header of a response.
func start(w http.ResponseWriter, status, retryAfter int, contentType string) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff") // the body may quote the request
	w.WriteHeader(status)
}
