package clusterhome

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// Each implements dashboard.Events, with the records of all bridges.
func (h *Home) Each(ctx context.Context, _ dashboard.User, query journal.Query, yield func(journal.Record) bool) {
	if h.served != nil {
		h.served.each(ctx, h.within(query), yield)
		return
	}
	for _, record := range h.recent(ctx, query) {
		if !yield(record) {
			return
		}
	}
}

func (h *Home) recent(ctx context.Context, query journal.Query) []journal.Record {
	admins, err := h.admins(ctx)
	if err != nil {
		return nil // the state has the problem
	}
	records, err := target.Recent(ctx, admins, h.wanted(query, -1))
	if err != nil {
		return nil
	}
	if query.Limit > 0 {
		records = records[max(0, len(records)-query.Limit):]
	}
	return records
}

// wanted is a query of the admin API; since is negative for everything.
func (h *Home) wanted(query journal.Query, since time.Duration) target.Wanted {
	if !query.Since.IsZero() {
		since = max(0, time.Since(query.Since))
	}
	return target.Wanted{
		ID: query.ID, Trace: query.Trace, Cause: query.Cause, Type: query.Type, Source: query.Source, Namespace: cmp.Or(query.Namespace, h.namespace),
		Subscription: query.Subscription, Kinds: query.Kinds, Since: since, Within: h.conn.Namespace,
	}
}

// followAgain is the pause before lost bridges are followed again.
const followAgain = 2 * time.Second

// Follow implements dashboard.Events.
func (h *Home) Follow(ctx context.Context, _ dashboard.User, query journal.Query, yield func(journal.Record)) {
	if h.served != nil {
		h.served.follow(ctx, h.within(query), yield)
		return
	}
	began := time.Now()
	if query.Since.IsZero() {
		for _, record := range h.recent(ctx, query) {
			if record.Time.Before(began) {
				yield(record)
			}
		}
	}
	for query.Since = began; ctx.Err() == nil; query.Since = time.Now() {
		if admins, err := h.admins(ctx); err == nil {
			_ = target.Follow(ctx, admins, h.wanted(query, 0), yield, func(error) {}) // the state has the problem
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// Event implements dashboard.Events. A cluster keeps no data of events that are delivered.
func (h *Home) Event(context.Context, dashboard.User, string, string) (json.RawMessage, error) {
	return nil, dashboard.ErrNotFound
}

// logAge bounds how far back a log goes.
const logAge = 24 * time.Hour

// lines implements dashboard.Lines.
type lines struct{ *Home }

// Follow implements dashboard.Lines.
func (h lines) Follow(ctx context.Context, _ dashboard.User, function types.NamespacedName, tail int, handle func(dashboard.Line)) {
	err := h.conn.Log(ctx, function.Namespace, function.Name, target.LogOptions{Tail: tail, Since: logAge, Follow: true}, func(l target.Line) {
		handle(dashboard.Line{Time: l.Time, Replica: l.Replica, Stream: l.Stream, Text: l.Text})
	})
	if err != nil && ctx.Err() == nil {
		handle(dashboard.Line{Time: time.Now(), Stream: "rouse", Text: err.Error()})
	}
}

// FollowBuild implements dashboard.Lines, with the containers of build Jobs.
func (h lines) FollowBuild(ctx context.Context, _ dashboard.User, function types.NamespacedName, _ int, handle func(dashboard.Line)) {
	err := h.objects.BuildLogs(ctx, function.Namespace, function.Name, func(l target.Line) {
		handle(dashboard.Line{Time: l.Time, Replica: l.Replica, Stream: l.Stream, Text: l.Text})
	})
	if err != nil && ctx.Err() == nil {
		handle(dashboard.Line{Time: time.Now(), Stream: "rouse", Text: err.Error()})
	}
}

// maxRefusal bounds the answer of a bridge to an event that it refuses.
const maxRefusal = 4 << 10

// Publish implements dashboard.Publisher.
func (h *Home) Publish(ctx context.Context, _ dashboard.User, event []byte) error {
	if h.served != nil { // the bridges take it for an event of this process, which may publish what its user may not
		return errors.New("this dashboard publishes no events: use rouse publish, or rouse dashboard with your own kubeconfig")
	}
	if ev, err := cloudevent.FromStructured(event); err != nil {
		return fmt.Errorf("it is not a CloudEvent in JSON: %w", err)
	} else if err := ev.Validate(); err != nil {
		return err
	}
	url, err := h.conn.Publish(ctx)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(event))
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	request.Header.Set("Content-Type", "application/cloudevents+json")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // the status is enough
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

// Call implements dashboard.Caller.
func (h *Home) Call(ctx context.Context, _ dashboard.User, function types.NamespacedName, call dashboard.Call) (dashboard.CallAnswer, error) {
	if err := h.may(ctx, identity.InvokeFunctions(function.Namespace)); err != nil {
		return dashboard.CallAnswer{}, err
	}
	url, err := h.conn.Function(ctx, function.Namespace, function.Name)
	if err != nil {
		return dashboard.CallAnswer{}, err
	}
	h.note(ctx, dashboard.KindFunction, function, "FunctionInvoked", "called by hand from the dashboard")
	return call.At(ctx, url)
}

// deadLetters implements dashboard.DeadLetters.
type deadLetters struct{ *Home }

// List implements dashboard.DeadLetters.
func (h deadLetters) List(ctx context.Context, _ dashboard.User, query admin.Query) (admin.Page, error) {
	var page admin.Page
	namespace := cmp.Or(query.Namespace, h.namespace)
	bridge, err := h.bridge(ctx, identity.ListDeadLetters(namespace))
	if err != nil {
		return page, refused(err)
	}
	wanted := target.Selection{
		Namespace: namespace, Subscription: query.Subscription, Reason: string(query.Reason), After: query.After,
	}
	found, more, err := bridge.DeadLetters(ctx, wanted, query.Limit)
	for i := range found {
		page.DeadLetters = append(page.DeadLetters, shownDeadLetter(&found[i]).DeadLetter)
	}
	if more && len(found) > 0 {
		page.Next = found[len(found)-1].Sequence
	}
	return page, refused(err)
}

// Get implements dashboard.DeadLetters.
func (h deadLetters) Get(ctx context.Context, _ dashboard.User, sequence uint64) (admin.DeadLetterDetail, error) {
	bridge, err := h.bridge(ctx, identity.GetDeadLetter(h.namespace))
	if err != nil {
		return admin.DeadLetterDetail{}, refused(err)
	}
	found, err := bridge.DeadLetter(ctx, h.namespace, sequence)
	return shownDeadLetter(&found), refused(err)
}

func shownDeadLetter(l *target.DeadLetter) admin.DeadLetterDetail {
	return admin.DeadLetterDetail{Event: l.Event, Body: l.Body, DeadLetter: admin.DeadLetter{
		Sequence: l.Sequence, Namespace: l.Namespace, Subscription: l.Subscription, Reason: l.Reason, Message: l.Message, Attempts: l.Attempts,
		Status: l.Status, Excerpt: l.Excerpt, Time: l.Time, Published: l.Published, Subject: l.Subject, ID: l.ID, Source: l.Source, Type: l.Type,
	}}
}

// Redrive implements dashboard.DeadLetters.
func (h deadLetters) Redrive(ctx context.Context, _ dashboard.User, selection admin.Selection) (admin.Redriven, error) {
	bridge, err := h.bridge(ctx, identity.Redrive(h.namespace))
	if err != nil {
		return admin.Redriven{}, err
	}
	origin := h.originOf(ctx, bridge, selection.Sequence)
	done, err := bridge.Redrive(ctx, target.Selection{Namespace: h.namespace, Sequence: selection.Sequence})
	if done.Redriven > 0 {
		h.note(ctx, dashboard.KindSubscription, origin, "DeadLettersRedriven", "dead letters redriven")
	}
	return admin.Redriven{Redriven: done.Redriven, Failed: done.Failed, Remaining: done.Remaining, Problems: done.Problems}, gone(err)
}

// Purge implements dashboard.DeadLetters.
func (h deadLetters) Purge(ctx context.Context, _ dashboard.User, selection admin.Selection) (uint64, error) {
	bridge, err := h.bridge(ctx, identity.Purge(h.namespace))
	if err != nil {
		return 0, err
	}
	origin := h.originOf(ctx, bridge, selection.Sequence)
	done, err := bridge.Purge(ctx, target.Selection{Namespace: h.namespace, Sequence: selection.Sequence})
	if done.Purged > 0 {
		h.note(ctx, dashboard.KindSubscription, origin, "DeadLettersPurged", "dead letters purged")
	}
	return done.Purged, gone(err)
}

// gone returns the error of the dashboard for a dead letter that is not there.
func gone(err error) error {
	if exit.CodeOf(err) == exit.NotFound {
		return failure.ErrDeadLetterNotFound
	}
	return err
}
