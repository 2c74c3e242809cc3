package doors

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/filter"
)

const (
	// maxCertificate bounds a client certificate with its chain, in base64.
	maxCertificate = 16 << 10
	retrySoon      = 1
	textType       = "text/plain; charset=utf-8"
	// unauthorized is what every sender hears who may not send.
	unauthorized = "the sender cannot be verified"
)

// ServeHTTP implements http.Handler.
func (d *Doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.deps.Gateway != nil {
		if err := d.deps.Gateway(r.Context(), r.Header.Get(door.HeaderToken)); err != nil {
			respond(w, http.StatusNotFound, "there is no Door here")
			return
		}
	}
	if !d.loaded.Load() || !d.ledger.isReady() {
		respondLater(w, http.StatusServiceUnavailable, "the Doors are not loaded yet")
		return
	}
	name, sender := r.Header.Get(door.HeaderDoor), r.Header.Get(door.HeaderSender)
	e := d.find(name)
	if e == nil {
		respond(w, http.StatusNotFound, "there is no Door here")
		return
	}
	v := &visit{all: d, at: e, sender: sender, now: d.deps.Now()}
	v.result, v.reason = failed, "the request could not be read"
	defer v.finish()
	v.serve(w, r)
}

// visit is a request to a Door.
type visit struct {
	all      *Doors
	at       *entry
	sender   string // address
	now      time.Time
	verified door.Verified
	result   result
	reason   string // for the owner
}

// refuse responds to a sender, and notes why for the owner.
func (v *visit) refuse(w http.ResponseWriter, is result, reason string, status int, text string) {
	v.result, v.reason = is, reason
	respond(w, status, text)
}

func (v *visit) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		v.shakeHands(w, r)
		return
	}
	if !v.at.limiter.admit(v.sender, v.now) {
		v.result, v.reason = limited, "more requests arrived than spec.requestsPerSecond"
		respondLater(w, http.StatusTooManyRequests, "too many requests")
		return
	}
	switch v.at.Form {
	case door.Webhook:
		v.webhook(w, r)
	case door.CloudEvents:
		v.publish(w, r, "/publish")
	case door.Application:
		v.application(w, r)
	}
}

// shakeHands consents to what the owner allows; https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md, section 4.
func (v *visit) shakeHands(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Webhook-Request-Origin")
	if origin == "" || !v.at.Consents(origin) {
		w.Header().Set("Allow", http.MethodPost)
		v.refuse(w, refused, "a handshake from an origin that spec.cloudEvents.origins has not", http.StatusMethodNotAllowed, "use POST")
		return
	}
	w.Header().Set("Allow", http.MethodPost)
	w.Header().Set("Webhook-Allowed-Origin", origin)
	w.Header().Set("Webhook-Allowed-Rate", strconv.Itoa(v.at.RequestsPerSecond*int(time.Minute/time.Second)))
	v.result, v.reason = challenged, ""
	w.WriteHeader(http.StatusOK)
}

// webhook takes a request that its provider has signed.
func (v *visit) webhook(w http.ResponseWriter, r *http.Request) {
	body, release, ok := v.read(w, r)
	defer release()
	if !ok {
		return
	}
	if ev := v.judge(w, r, body); ev != nil {
		v.store(w, r, ev, body)
	}
}

// judge returns the event of a request, or nil for one that is answered.
func (v *visit) judge(w http.ResponseWriter, r *http.Request, body []byte) *cloudevent.Event {
	if !v.compute(w, r) {
		return nil
	}
	defer v.all.work.Release(v.at.Name.Namespace, 1)
	request := &door.Request{Header: r.Header, Query: r.URL.RawQuery, Body: body}
	if !v.verify(w, request) {
		return nil
	}
	if answer := v.at.Challenge(request); answer != nil {
		v.result, v.reason = challenged, ""
		respond(w, http.StatusOK, string(answer))
		return nil
	}
	ev, drop, err := v.at.Event(request, &v.verified, v.now)
	switch {
	case drop:
		v.result, v.reason = dropped, ""
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, door.ErrType):
		v.refuse(w, mistyped, err.Error(), http.StatusUnprocessableEntity, "the event is of a type that is not taken here")
	case err != nil:
		v.refuse(w, invalid, err.Error(), http.StatusUnprocessableEntity, reasonOf(err))
	default:
		return ev
	}
	return nil
}

// reasonOf keeps expressions from the sender.
func reasonOf(err error) string {
	for _, known := range []error{filter.ErrNotEvaluable, filter.ErrNotJSON, filter.ErrTooExpensive} {
		if errors.Is(err, known) {
			return "the request does not fit what is expected here"
		}
	}
	return err.Error()
}

// compute waits for a place to compute.
func (v *visit) compute(w http.ResponseWriter, r *http.Request) bool {
	if err := v.all.work.Acquire(r.Context().Done(), v.at.Name.Namespace, 1); err != nil {
		v.result, v.reason = limited, "the requests to the Doors of this namespace take longer to compute than they may"
		respondLater(w, http.StatusTooManyRequests, "too many requests")
		return false
	}
	return true
}

func (v *visit) verify(w http.ResponseWriter, r *door.Request) bool {
	verified, err := v.at.Verify(r, v.now)
	if err != nil {
		v.refuse(w, refused, err.Error(), http.StatusUnauthorized, unauthorized)
		return false
	}
	v.verified = verified
	v.at.limiter.verify(v.sender)
	return true
}

// store stores an event once.
func (v *visit) store(w http.ResponseWriter, r *http.Request, ev *cloudevent.Event, body []byte) {
	deliveries := []Delivery{deliveryOf(v.at.UID, ev.ID, body)}
	if v.at.UniqueBodies {
		deliveries = append(deliveries, deliveryOf(v.at.UID, "", body))
	}
	for i, each := range deliveries {
		switch known, differs := v.all.ledger.find(each); {
		case known && differs:
			v.refuse(w, conflicting, "another body came with the id of an earlier delivery", http.StatusConflict, "this id was another delivery's")
			return
		case known:
			v.result, v.reason = repeated, ""
			if i > 0 {
				v.reason = "the body of an earlier delivery came with another id"
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if err := v.allow(ev); err != nil {
		v.refuse(w, forbidden, err.Error(), http.StatusForbidden, "the owner of this address may not publish the event")
		return
	}
	if v.all.deps.Ingress.Store(w, r, ev) {
		v.all.ledger.add(v.at.Name.Namespace, v.now, deliveries...)
		v.result, v.reason = accepted, ""
		return
	}
	v.reason = "the event could not be stored: look at the eventbridge's metrics and log"
}

// allow makes the Door's namespace the publisher of an event.
func (v *visit) allow(ev *cloudevent.Event) error {
	if err := v.all.deps.Allow(v.at.Name.Namespace, ev); err != nil {
		return err
	}
	ev.Publisher = v.at.Name.Namespace
	return nil
}

// read reads a body.
func (v *visit) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), ok bool) {
	limit := v.all.options.MaxBody
	body, release, err := v.all.bodies.Read(w, r, limit)
	switch {
	case err == nil:
		return body, release, true
	case errors.Is(err, ingress.ErrTooLarge):
		v.refuse(w, tooLarge, fmt.Sprintf("a body of more than %d bytes", limit), http.StatusRequestEntityTooLarge, "the body is too large")
	case errors.Is(err, ingress.ErrTooSlow):
		v.refuse(w, failed, "a body did not arrive in time", http.StatusRequestTimeout, "the body did not arrive in time")
	case errors.Is(err, ingress.ErrNoMemory):
		v.result, v.reason = limited, "too many bytes of requests to Doors are being read"
		respondLater(w, http.StatusServiceUnavailable, "too many requests are being read")
	default:
		v.refuse(w, failed, "a body ended early", http.StatusBadRequest, "the body ended early")
	}
	return nil, release, false
}

// finish counts what became of a request.
func (v *visit) finish() {
	v.all.metrics.count(v.at.Name, v.result)
	v.all.reports.note(v)
}

func respond(w http.ResponseWriter, status int, text string) {
	header := w.Header()
	header.Set("Content-Type", textType)
	header.Set("X-Content-Type-Options", "nosniff") // the text may quote the request
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the sender may be gone
}

func respondLater(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Retry-After", strconv.Itoa(retrySoon))
	respond(w, status, text)
}
