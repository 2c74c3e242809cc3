package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/trace"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// maxID bounds the id and the source of an event in a request.
const maxID = 1024

// events returns the last records that a query selects.
func (h *Handler) events(w http.ResponseWriter, r *http.Request, user User) error {
	query, err := recordsOf(r)
	if err != nil {
		return err
	}
	records := []journal.Record{}
	h.deps.Events.Each(r.Context(), user, query, func(record journal.Record) bool {
		records = append(records, record)
		return true
	})
	answerMuch(w, r, struct {
		Records []journal.Record `json:"records"`
	}{records})
	return nil
}

// eventDetail is one event with all that happened to it.
type eventDetail struct {
	Records []journal.Record `json:"records"`
	// Event is the event with its data; empty when these are not kept.
	Event json.RawMessage `json:"event,omitempty"`
}

func (h *Handler) event(w http.ResponseWriter, r *http.Request, user User) error {
	id, source := r.URL.Query().Get("id"), r.URL.Query().Get("source")
	if id == "" || len(id)+len(source) > maxID {
		return Error{http.StatusBadRequest, "id: name the event by its id, and by its source if others have the same id"}
	}
	detail := eventDetail{Records: []journal.Record{}}
	query := journal.Query{ID: id, Source: source, Limit: eventSample}
	h.deps.Events.Each(r.Context(), user, query, func(record journal.Record) bool {
		detail.Records = append(detail.Records, record)
		return true
	})
	var err error
	detail.Event, err = h.deps.Events.Event(r.Context(), user, source, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err != nil && len(detail.Records) == 0 {
		return Error{http.StatusNotFound, "there is no record of this event: it was not published here, or is too long ago"}
	}
	answer(w, http.StatusOK, detail)
	return nil
}

// trace returns the chain of events that one belongs to, as a tree.
func (h *Handler) trace(w http.ResponseWriter, r *http.Request, user User) error {
	id := r.URL.Query().Get("id")
	if id == "" || len(id) > maxID {
		return Error{http.StatusBadRequest, "id: name an event of the chain by its id"}
	}
	var records []journal.Record
	h.deps.Events.Each(r.Context(), user, journal.Query{}, func(record journal.Record) bool {
		records = append(records, record)
		return true
	})
	root, err := trace.Tree(records, id)
	if errors.Is(err, trace.ErrUnknown) {
		return Error{http.StatusNotFound, err.Error()}
	}
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, root)
	return nil
}

// printed are the lines of a Function.
type printed struct {
	lines    func(ctx context.Context, user User, function types.NamespacedName, tail int, handle func(Line))
	user     User
	function types.NamespacedName
	waiting  lineBuffer
}

// shownLines is the number of past lines that a stream begins with.
const shownLines = 500

// log sends the lines of a Function's replicas.
func (h *Handler) log(w http.ResponseWriter, r *http.Request, user User) error {
	return h.lines(w, r, &printed{lines: h.deps.Lines.Follow, user: user})
}

// build sends the lines of a Function's builds.
func (h *Handler) build(w http.ResponseWriter, r *http.Request, user User) error {
	return h.lines(w, r, &printed{lines: h.deps.Lines.FollowBuild, user: user})
}

func (h *Handler) lines(w http.ResponseWriter, r *http.Request, lines *printed) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	found, err := h.deps.State.Snapshot(r.Context(), lines.user)
	if err == nil {
		_, err = DetailOf(found.Functions, name)
	}
	if err != nil {
		return err
	}
	lines.function = name
	return h.run(w, r, lines.user, lines)
}

func (p *printed) follow(ctx context.Context) {
	p.lines(ctx, p.user, p.function, shownLines, p.waiting.add)
}

func (p *printed) turn(_ context.Context, s *stream) (time.Duration, error) {
	found := p.waiting.take()
	if len(found.Lines) == 0 {
		return streamTurn, nil
	}
	return streamTurn, s.send("lines", found)
}
