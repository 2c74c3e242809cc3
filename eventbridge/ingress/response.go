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
)

// Errors of a Publisher that answers distinguish. The text of each is what the sender of the event reads.
var (
	// ErrTooLarge means that the event is larger than the store takes.
	ErrTooLarge = errors.New("event is larger than the stream takes")
	// ErrBusy means that too many events wait for their confirmation already.
	ErrBusy = errors.New("too many events wait to be stored")
	// ErrNotConnected means that the store cannot be reached now.
	ErrNotConnected = errors.New("no connection to NATS JetStream server")
	// ErrStorageFull means that the store has no space for the event.
	ErrStorageFull = errors.New("insufficient resources on target stream")
	// ErrNearlyFull means that the free storage is reserved for stored events that come back.
	ErrNearlyFull = errors.New("the stream is nearly full and takes no new events until stored ones are delivered")
	// ErrNoStream means that there is no stream that takes the event.
	ErrNoStream = errors.New("cannot send to stream")
	// ErrInsufficientResources means that the server has less storage than the event needs.
	ErrInsufficientResources = errors.New("the account or the server of NATS has no room for more")
	// ErrInProcess means that the same event was published before and is not stored yet.
	ErrInProcess = errors.New("an earlier publish of the same event is still being stored")
	// ErrTimeout means that no answer came in time, so that it is not known whether the event is stored.
	ErrTimeout = errors.New("no answer from the stream in time")
)

// InvalidEventError is a Publisher's error for an event that cannot be stored, with a reason for its sender.
type InvalidEventError struct{ Reason string }

// Error returns the reason as it is.
func (e *InvalidEventError) Error() string { return e.Reason }

// StatusError is a Publisher's error for an answer of the store that has a status of its own.
type StatusError struct {
	Status int // like that of HTTP
	Reason string
}

// Error returns the reason as it is.
func (e *StatusError) Error() string { return e.Reason }

// response is the answer to a publisher.
type response struct {
	status     int
	reason     string
	retryAfter int // seconds, 0 for none
}

// Waits that publishers are asked for: an outage or a full buffer is usually over soon, a full disk is not.
const (
	retrySoon  = 1
	retryLater = 10
)

// refusal says why a request holds no event. One that was too slow, or came while the budget was used, may be sent again.
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

// responseFor maps what became of a publish.
func responseFor(err error) response {
	if err == nil {
		return response{status: http.StatusNoContent}
	}
	if invalid, ok := errors.AsType[*InvalidEventError](err); ok {
		return response{status: http.StatusBadRequest, reason: brief(invalid.Reason)}
	}
	for _, known := range []struct {
		err                error
		status, retryAfter int
	}{
		{ErrTooLarge, http.StatusBadRequest, 0},
		{ErrBusy, http.StatusTooManyRequests, retrySoon},
		{ErrNotConnected, http.StatusBadGateway, retrySoon},
		{ErrStorageFull, http.StatusInsufficientStorage, retryLater},
		{ErrNearlyFull, http.StatusInsufficientStorage, retryLater},
		{ErrNoStream, http.StatusGatewayTimeout, retrySoon},
		{ErrInsufficientResources, http.StatusServiceUnavailable, retryLater},
		{ErrInProcess, http.StatusServiceUnavailable, retrySoon},
		{ErrTimeout, http.StatusServiceUnavailable, retrySoon},
	} {
		if errors.Is(err, known.err) {
			return response{known.status, known.err.Error(), known.retryAfter}
		}
	}
	if own, ok := errors.AsType[*StatusError](err); ok && own.Status >= 400 && own.Status < 600 {
		resp := response{status: own.Status, reason: own.Reason}
		if own.Status == http.StatusServiceUnavailable || own.Status == http.StatusTooManyRequests {
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
	start(w, resp.status, resp.retryAfter, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, resp.reason+"\n") // a publisher that is gone needs no reason
}

func respondJSON(w http.ResponseWriter, status, retryAfter int, body any) {
	start(w, status, retryAfter, typeJSON)
	_, _ = w.Write(encode(body)) // a publisher that is gone needs no answer
}

// encode makes JSON of an answer, which is of nothing but texts, numbers and lists of them.
func encode(body any) []byte {
	var answer bytes.Buffer
	_ = json.NewEncoder(&answer).Encode(body)
	return answer.Bytes()
}

// longestQuote bounds the bytes of a text in an answer that may be what was sent.
const longestQuote = 512

// brief cuts a text off that is too long to be quoted. The copy keeps nothing else of the request in memory.
func brief(text string) string {
	if len(text) <= longestQuote {
		return text
	}
	return strings.ToValidUTF8(text[:longestQuote], "") + "..."
}

// start writes what stands before an answer's body.
func start(w http.ResponseWriter, status, retryAfter int, contentType string) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff") // the body may quote what was sent
	w.WriteHeader(status)
}
