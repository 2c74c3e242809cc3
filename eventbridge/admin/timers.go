package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// Timers know what is due later.
type Timers interface {
	// DelayedEvents lists the events of a namespace that wait, or of all.
	DelayedEvents(namespace string) []timers.Delayed
	// DelayedEvent reads one that waits in a namespace, or in any.
	DelayedEvent(ctx context.Context, namespace, id string) (timers.Delayed, *cloudevent.Event, error)
	// CancelDelayed deletes one before it is due.
	CancelDelayed(ctx context.Context, namespace, id string) error
	// Schedules lists those of a namespace, or all.
	Schedules(namespace string) []timers.ScheduleState
	// RunSchedule publishes the event of a Schedule now, and returns the event's id.
	RunSchedule(ctx context.Context, name types.NamespacedName) (id string, err error)
}

// DelayedEvent is an event that is due later, without its data.
type DelayedEvent struct {
	ID        string    `json:"id"` // by which it is cancelled
	Due       time.Time `json:"due"`
	Namespace string    `json:"namespace,omitempty"` // of its publisher, if that is known
	Source    string    `json:"source,omitempty"`
	Type      string    `json:"type,omitempty"`
	EventID   string    `json:"eventID,omitempty"`
}

// DelayedPage is the next of them, and how many there are.
type DelayedPage struct {
	Delayed []DelayedEvent `json:"delayed"`
	Total   int            `json:"total"`
}

// Schedule is a Schedule in a list.
type Schedule struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	When      string     `json:"when"` // its cron line, interval or time
	Type      string     `json:"type"`
	Source    string     `json:"source"`
	Problem   string     `json:"problem,omitempty"` // why nothing is published
	Last      *time.Time `json:"last,omitempty"`    // due time of the last event
	Next      *time.Time `json:"next,omitempty"`
	Published int64      `json:"published"`
	Missed    int64      `json:"missed"`
}

var errNoTimers = httpError{http.StatusNotFound, "this installation delays no events and runs no Schedules"}

// delayed returns the next events that are due later.
func (h *Handler) delayed(_ http.ResponseWriter, r *http.Request) (action, error) {
	namespace, limit, err := delayedQuery(r.URL.Query())
	if err == nil && h.timers == nil {
		err = errNoTimers
	}
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		page, err := h.delayedPage(r.Context(), namespace, limit)
		if err == nil {
			answer(w, http.StatusOK, page)
		}
		return err
	}
	return action{identity.ListDelayed(namespace), do}, err
}

// schedules lists Schedules.
func (h *Handler) schedules(_ http.ResponseWriter, r *http.Request) (action, error) {
	namespace, err := namespaceOf(r.URL.Query())
	if err == nil && h.timers == nil {
		err = errNoTimers
	}
	do := func(w http.ResponseWriter, _ *http.Request, _ identity.User) error {
		all := []Schedule{}
		for _, each := range h.timers.Schedules(namespace) {
			all = append(all, ScheduleOf(each))
		}
		slices.SortFunc(all, func(a, b Schedule) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		answer(w, http.StatusOK, struct {
			Schedules []Schedule `json:"schedules"`
		}{all})
		return nil
	}
	return action{identity.ListSchedules(namespace), do}, err
}

// ScheduleOf returns how a Schedule is listed.
func ScheduleOf(state timers.ScheduleState) Schedule {
	s := state.Schedule
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	when := s.Spec.Cron
	switch {
	case s.Spec.Every != "":
		when = "every " + string(s.Spec.Every)
	case s.Spec.At != "":
		when = "at " + string(s.Spec.At)
	case s.Spec.TimeZone != "":
		when += " " + s.Spec.TimeZone
	}
	return Schedule{
		Namespace: s.Namespace, Name: s.Name, When: when, Type: s.Spec.Event.Type, Source: cmp.Or(s.Spec.Event.Source, s.Namespace),
		Problem: state.Problem, Last: at(state.Cursor.LastDue), Next: at(state.Next), Published: state.Cursor.Published, Missed: state.Cursor.Missed,
	}
}

func delayedQuery(values url.Values) (namespace string, limit int, err error) {
	const most = "limit"
	limit = defaultLimit
	if text := values.Get(most); text != "" {
		asked, err := number(most, text)
		if err != nil {
			return "", 0, err
		}
		limit = int(min(asked, maxLimit))
	}
	values.Del(most)
	namespace, err = namespaceOf(values)
	return namespace, limit, err
}

func (h *Handler) delayedPage(ctx context.Context, namespace string, limit int) (DelayedPage, error) {
	all := h.timers.DelayedEvents(namespace)
	slices.SortFunc(all, func(a, b timers.Delayed) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	page := DelayedPage{Delayed: []DelayedEvent{}, Total: len(all)}
	for _, each := range all[:min(limit, len(all))] {
		entry := DelayedEvent{ID: each.ID, Due: each.Due.UTC(), Namespace: each.Namespace}
		_, ev, err := h.timers.DelayedEvent(ctx, each.Namespace, each.ID)
		switch {
		case errors.Is(err, failure.ErrNoDelayed): // published since
			continue
		case err != nil:
			return page, err
		}
		entry.Source, entry.Type, entry.EventID = ev.Source, ev.Type, ev.ID
		page.Delayed = append(page.Delayed, entry)
	}
	return page, nil
}

// namedBody is the body of a request about one object.
type namedBody struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
}

// cancelDelayed deletes an event that is due later. One of another namespace is not found.
func (h *Handler) cancelDelayed(w http.ResponseWriter, r *http.Request) (action, error) {
	var body namedBody
	err := decodeBody(w, r, &body, maxBody, "namespace and id")
	switch {
	case err != nil:
	case h.timers == nil:
		err = errNoTimers
	case body.ID == "" || body.Name != "":
		err = httpError{http.StatusBadRequest, `id: name the delayed event, as GET /v1/delayed lists it`}
	default:
		err = invalid(Selection{Namespace: body.Namespace}.Validate())
	}
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		if err := h.timers.CancelDelayed(r.Context(), body.Namespace, body.ID); err != nil {
			return err
		}
		h.log.Info("delayed event cancelled", "user", user.Name, "namespace", body.Namespace, "id", body.ID)
		answer(w, http.StatusOK, struct{}{})
		return nil
	}
	return action{identity.CancelDelayed(body.Namespace), do}, err
}

// runSchedule publishes the event of a Schedule.
func (h *Handler) runSchedule(w http.ResponseWriter, r *http.Request) (action, error) {
	var body namedBody
	err := decodeBody(w, r, &body, maxBody, "namespace and name")
	switch {
	case err != nil:
	case h.timers == nil:
		err = errNoTimers
	case len(validation.IsDNS1123Label(body.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(body.Name)) > 0 || body.ID != "":
		err = httpError{http.StatusBadRequest, `namespace and name: name a Schedule`}
	}
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		id, err := h.timers.RunSchedule(r.Context(), types.NamespacedName{Namespace: body.Namespace, Name: body.Name})
		if err != nil {
			return scheduleError(err)
		}
		h.log.Info("Schedule run", "user", user.Name, "namespace", body.Namespace, "schedule", body.Name, "id", id)
		answer(w, http.StatusOK, struct {
			ID string `json:"id"`
		}{id})
		return nil
	}
	return action{identity.RunSchedule(body.Namespace), do}, err
}

func scheduleError(err error) error {
	invalid, isInvalid := errors.AsType[*failure.InvalidEventError](err)
	switch {
	case errors.Is(err, timers.ErrNoSchedule):
		return httpError{http.StatusNotFound, "there is no such Schedule"}
	case errors.Is(err, timers.ErrForbidden):
		return httpError{http.StatusForbidden, err.Error()}
	case isInvalid:
		return httpError{http.StatusUnprocessableEntity, invalid.Reason}
	default:
		return err
	}
}
