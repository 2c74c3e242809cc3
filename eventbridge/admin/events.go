package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// slowest bounds how long a client may take to read a record.
const slowest = 10 * time.Second

// Journal holds what happened to events.
type Journal interface {
	// Each calls yield with the stored records until it returns false.
	Each(query journal.Query, yield func(journal.Record) bool)
	// Follow calls yield with the stored records and then with new ones, until ctx ends.
	Follow(ctx context.Context, query journal.Query, yield func(journal.Record))
}

// Wakes holds the last wake of each Function and workload.
type Wakes interface {
	// In returns those of a namespace.
	In(namespace string) []journal.FunctionWake
}

// lastWakes returns the last wakes of a namespace, as far as this bridge has heard of them.
func (h *Handler) lastWakes(_ http.ResponseWriter, r *http.Request) (action, error) {
	namespace, err := namespaceOf(r.URL.Query())
	if err == nil && namespace == "" {
		err = problem("namespace", "it is missing")
	}
	return action{identity.ListSubscriptions(namespace), func(w http.ResponseWriter, _ *http.Request, _ identity.User) error {
		answer(w, http.StatusOK, struct {
			Wakes []journal.FunctionWake `json:"wakes"`
		}{h.wakes.In(namespace)})
		return nil
	}}, err
}

// events responds with a line of JSON for each record.
func (h *Handler) events(_ http.ResponseWriter, r *http.Request) (action, error) {
	query, follow, err := ParseEvents(r.URL.Query(), time.Now())
	if err == nil && h.journal == nil {
		err = httpError{http.StatusNotFound, "this eventbridge records no events: --journal-events is 0"}
	}
	if follow {
		right := identity.WatchEvents(query.Namespace)
		return action{right, func(w http.ResponseWriter, r *http.Request, user identity.User) error {
			ctx, end := h.whileAllowed(r.Context(), user, right)
			defer end()
			h.follow(ctx, w, query)
			return nil
		}}, err
	}
	return action{identity.ListEvents(query.Namespace), func(w http.ResponseWriter, _ *http.Request, _ identity.User) error {
		lines := newLines(w)
		h.journal.Each(query, func(record journal.Record) bool {
			return lines.write(record) == nil // a client that is gone or too slow does not matter
		})
		return nil
	}}, err
}

func (h *Handler) follow(ctx context.Context, w http.ResponseWriter, query journal.Query) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := newLines(w)
	lines.flush()
	h.journal.Follow(ctx, query, func(record journal.Record) {
		if ctx.Err() != nil || lines.write(record) != nil {
			stop()
			return
		}
		lines.flush()
	})
}

// lines writes records, each with its own deadline.
type lines struct {
	control *http.ResponseController
	encoder *json.Encoder
}

func newLines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return lines{control: http.NewResponseController(w), encoder: json.NewEncoder(w)}
}

func (l lines) write(record journal.Record) error {
	_ = l.control.SetWriteDeadline(time.Now().Add(slowest))
	if err := l.encoder.Encode(record); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// flush leaves it to the next write to notice that the client is gone.
func (l lines) flush() { _ = l.control.Flush() }

// ParseEvents parses the query of a request for records. Its error names the parameter.
func ParseEvents(values url.Values, now time.Time) (query journal.Query, follow bool, err error) {
	texts := map[string]*string{
		"id": &query.ID, "trace": &query.Trace, "cause": &query.Cause, "source": &query.Source, "type": &query.Type,
		"namespace": &query.Namespace, "subscription": &query.Subscription,
	}
	for name := range values {
		value := values.Get(name)
		text := texts[name]
		switch {
		case value == "":
			err = problem(name, "it must not be empty")
		case text != nil:
			*text = value
		case name == "kind":
			query.Kinds, err = kindsOf(values[name])
		case name == "since":
			query.Since, err = sinceOf(value, now)
		case name == "limit":
			query.Limit, err = limitOf(value)
		case name == "follow":
			if follow, err = strconv.ParseBool(value); err != nil {
				err = problem(name, "it must be true or false")
			}
		default:
			err = httpError{http.StatusBadRequest, fmt.Sprintf("there is no parameter %q: "+
				"use follow, since, limit, kind, id, trace, cause, type, source, namespace or subscription", name)}
		}
		if err != nil {
			return query, follow, err
		}
	}
	return query, follow, checkEvents(&query)
}

func checkEvents(query *journal.Query) error {
	query.Trace = strings.ToLower(query.Trace)
	const digits = 32
	if query.Trace != "" && (len(query.Trace) != digits || strings.Trim(query.Trace, "0123456789abcdef") != "") {
		return problem("trace", "it must be the 32 hexadecimal digits of a trace id")
	}
	if !cloudevent.IsTypePattern(query.Type) {
		return problem("type", "a * may stand at its end only, as in order.*")
	}
	selected := Selection{Namespace: query.Namespace}
	return invalid(selected.Validate())
}

func kindsOf(values []string) (kinds []journal.Kind, err error) {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			kind := journal.Kind(name)
			if !slices.Contains(journal.Kinds(), kind) {
				return nil, problem("kind", fmt.Sprintf("there is no %q: use some of %v", name, journal.Kinds()))
			}
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

func sinceOf(value string, now time.Time) (time.Time, error) {
	ago, err := time.ParseDuration(value)
	if err != nil || ago < 0 {
		return time.Time{}, problem("since", "it must be a duration such as 30s or 5m")
	}
	return now.Add(-ago), nil
}

func limitOf(value string) (int, error) {
	limit, err := strconv.ParseUint(value, 10, 31)
	if err != nil || limit == 0 {
		return 0, problem("limit", "it must be a number of at least 1")
	}
	return int(limit), nil
}

func problem(parameter, text string) error {
	return httpError{http.StatusBadRequest, parameter + ": " + text}
}

const (
	// followAgain is the interval in which a follower's right is reviewed.
	followAgain = 30 * time.Second
	// followFor bounds a follower, whose token may have expired: only the right is reviewed again.
	followFor = time.Hour
)

// whileAllowed returns a context that ends when the user loses the right. One failed review is tolerated, so that a
// restart of the API server ends no follower.
func (h *Handler) whileAllowed(ctx context.Context, user identity.User, right identity.Right) (_ context.Context, end func()) {
	ctx, cancel := context.WithTimeout(ctx, followFor)
	var checks sync.WaitGroup
	checks.Go(func() {
		defer cancel()
		ticker := time.NewTicker(followAgain)
		defer ticker.Stop()
		for failures := 0; failures < 2; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := h.access.Authorize(ctx, user, right)
			_, forbidden := errors.AsType[identity.ForbiddenError](err)
			switch {
			case forbidden:
				return
			case err != nil:
				failures++
			default:
				failures = 0
			}
		}
	})
	return ctx, func() {
		cancel()
		checks.Wait()
	}
}
