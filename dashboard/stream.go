package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

const (
	// streamTurn is the interval at which a stream sends what has come, and largeTurn that at which one with many objects sends the state.
	streamTurn = 250 * time.Millisecond
	largeTurn  = time.Second
	manyItems  = 500
	// streamLife bounds a stream: the page opens the next one, for which the user is authenticated again.
	streamLife = time.Hour
	// heartbeat is the longest silence, so that both sides notice a connection that is gone.
	heartbeat = 15 * time.Second
)

// source is what a stream sends.
type source interface {
	// follow collects what happens until ctx ends.
	follow(ctx context.Context)
	// turn sends what was collected, and returns the time until the next turn. It fails when the client is gone.
	turn(ctx context.Context, s *stream) (time.Duration, error)
}

// stream writes server-sent events.
type stream struct {
	w       io.Writer
	control *http.ResponseController
	sent    time.Time
}

// run serves a stream, which holds one of the user's places until it ends.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, user User, from source) error {
	if !h.streams.TryAcquire(user.share(), 1) {
		return Error{http.StatusTooManyRequests, "you have too many live pages open: close some of them"}
	}
	defer h.streams.Release(user.share(), 1)
	body, end := packed(w, r)
	defer end()
	s := &stream{w: body, control: http.NewResponseController(w), sent: time.Now()}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies pass on what comes
	w.WriteHeader(http.StatusOK)
	_ = s.control.SetReadDeadline(time.Time{}) // the read timeout would end the stream
	_ = s.control.Flush()                      // the client gets the status before the first event
	ctx, cancel := context.WithTimeout(r.Context(), streamLife)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { from.follow(ctx) })
	for {
		pause, err := from.turn(ctx, s)
		if err != nil || s.beat(time.Now()) != nil {
			return nil // the client is gone
		}
		select {
		case <-ctx.Done():
			return nil // the client has to ask again
		case <-time.After(pause):
		}
	}
}

// send writes an event with JSON, which has no line breaks.
func (s *stream) send(name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("write an event of a stream: %w", err)
	}
	return s.sendJSON(name, body)
}

func (s *stream) sendJSON(name string, body []byte) error {
	return s.write([]byte("event: "+name+"\ndata: "), body, []byte("\n\n"))
}

// beat writes a comment if nothing was sent for a while.
func (s *stream) beat(now time.Time) error {
	if now.Sub(s.sent) < heartbeat {
		return nil
	}
	return s.write([]byte(": \n\n"))
}

func (s *stream) write(parts ...[]byte) error {
	for _, part := range parts {
		if _, err := s.w.Write(part); err != nil {
			return err
		}
	}
	s.sent = time.Now()
	return s.control.Flush()
}

// overview is the state, and what events do.
type overview struct {
	deps      Deps
	user      User
	since     time.Time
	happening *batch
	seen      *differ
	sentState time.Time
}

// live sends the state, what changes of it, and what events do from now on.
func (h *Handler) live(w http.ResponseWriter, r *http.Request, user User) error {
	if _, err := h.deps.State.Snapshot(r.Context(), user); err != nil {
		return err
	}
	return h.run(w, r, user, &overview{deps: h.deps, user: user, since: time.Now(), happening: newBatch(liveSample), seen: newDiffer()})
}

func (o *overview) follow(ctx context.Context) {
	o.deps.Events.Follow(ctx, o.user, journal.Query{Since: o.since}, o.happening.add)
}

func (o *overview) turn(ctx context.Context, s *stream) (time.Duration, error) {
	flow, moved := o.happening.take() // before the state, which is then not older than what the events have caused
	if err := o.sendState(ctx, s); err != nil {
		return 0, err
	}
	if moved {
		if err := s.send("flow", flow); err != nil {
			return 0, err
		}
	}
	return streamTurn, nil
}

// sendState sends what has changed of the state. Without an answer the page goes on with what it has.
func (o *overview) sendState(ctx context.Context, s *stream) error {
	if o.seen.size() > manyItems && time.Since(o.sentState) < largeTurn {
		return nil
	}
	o.sentState = time.Now()
	current, err := o.deps.State.Snapshot(ctx, o.user)
	if err != nil {
		return nil //nolint:nilerr // it is asked again in the next turn
	}
	change, err := o.seen.diff(&current)
	if err != nil || change == nil {
		return err
	}
	return s.sendJSON("state", change)
}

// passing are the records that a query selects.
type passing struct {
	events    Events
	user      User
	query     journal.Query
	happening *batch
}

// eventsLive sends the records that a query selects, the stored ones first.
func (h *Handler) eventsLive(w http.ResponseWriter, r *http.Request, user User) error {
	query, err := recordsOf(r)
	if err != nil {
		return err
	}
	return h.run(w, r, user, &passing{events: h.deps.Events, user: user, query: query, happening: newBatch(eventSample)})
}

func recordsOf(r *http.Request) (journal.Query, error) {
	query, _, err := admin.ParseEvents(r.URL.Query(), time.Now())
	if err != nil {
		return query, Error{http.StatusBadRequest, err.Error()}
	}
	if query.Limit == 0 || query.Limit > eventSample {
		query.Limit = eventSample
	}
	return query, nil
}

func (p *passing) follow(ctx context.Context) { p.events.Follow(ctx, p.user, p.query, p.happening.add) }

func (p *passing) turn(_ context.Context, s *stream) (time.Duration, error) {
	flow, moved := p.happening.take()
	if !moved {
		return streamTurn, nil
	}
	return streamTurn, s.send("records", flow)
}
