package jetstream

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// AdminStore is the store behind the admin API. It implements admin.Store.
type AdminStore struct {
	conn    *broker.Conn
	stream  string
	journal *journal.Journal // records redrives; nil records nothing
}

// NewAdminStore returns an AdminStore for the stream of events. The journal, which may be nil, is the one of the bridge
// that serves the admin API.
func NewAdminStore(conn *broker.Conn, stream string, events *journal.Journal) *AdminStore {
	return &AdminStore{conn: conn, stream: stream, journal: events}
}

// List implements admin.Store. It returns dead letters without their bodies.
func (a *AdminStore) List(ctx context.Context, query admin.Query) (admin.Page, error) {
	listed, err := a.conn.ListDeadLetters(ctx, broker.DeadLetterQuery{
		DeadLetterSelection: broker.DeadLetterSelection(query.Selection), After: query.After, Limit: query.Limit,
	})
	if err != nil {
		return admin.Page{}, err
	}
	page := admin.Page{DeadLetters: make([]admin.DeadLetter, 0, len(listed.DeadLetters)), Next: listed.Next}
	for i := range listed.DeadLetters {
		page.DeadLetters = append(page.DeadLetters, deadLetterOf(&listed.DeadLetters[i]))
	}
	return page, nil
}

// Get implements admin.Store.
func (a *AdminStore) Get(ctx context.Context, sequence uint64) (admin.DeadLetterDetail, error) {
	stored, err := a.conn.DeadLetter(ctx, sequence)
	if err != nil {
		return admin.DeadLetterDetail{}, err
	}
	return detailOf(&stored), nil
}

func detailOf(stored *broker.StoredDeadLetter) admin.DeadLetterDetail {
	detail := admin.DeadLetterDetail{DeadLetter: deadLetterOf(stored)}
	if stored.Structured {
		detail.Event = shown(stored)
	} else {
		detail.Body = stored.Body
	}
	return detail
}

// shown returns a stored event as its sink gets it: with the type as it was published.
func shown(stored *broker.StoredDeadLetter) []byte {
	ev, err := cloudevent.FromStructured(stored.Body)
	if err != nil || ev.Type == stored.Type || stored.Type == "" {
		return stored.Body
	}
	ev.Type = stored.Type
	return ev.AppendStructured(nil)
}

func deadLetterOf(stored *broker.StoredDeadLetter) admin.DeadLetter {
	deadLetter := admin.DeadLetter{
		Sequence: stored.Sequence, Namespace: stored.Subscription.Namespace, Subscription: stored.Subscription.Name,
		Reason: string(stored.Reason), Message: stored.Message, Attempts: stored.Attempts, Status: stored.Status, Excerpt: stored.Excerpt,
		Time: stored.Time.UTC(), Subject: stored.Subject, ID: stored.ID, Source: stored.Source, Type: stored.Type,
	}
	if !stored.Stored.IsZero() {
		published := stored.Stored.UTC()
		deadLetter.Published = &published
	}
	return deadLetter
}

// Redrive implements admin.Store.
func (a *AdminStore) Redrive(ctx context.Context, selection admin.Selection) (admin.Redriven, error) {
	done, err := a.conn.RedriveFunc(ctx, a.stream, broker.DeadLetterSelection(selection), a.remember)
	return admin.Redriven(done), err
}

// RedriveEdited implements admin.Store.
func (a *AdminStore) RedriveEdited(ctx context.Context, selection admin.Selection, data []byte) (admin.Redriven, error) {
	done, err := a.conn.RedriveEdited(ctx, a.stream, broker.DeadLetterSelection(selection), data, a.remember)
	return admin.Redriven(done), err
}

// remember adds a record of a redriven event to the journal.
func (a *AdminStore) remember(at time.Time, subscription types.NamespacedName, ev *cloudevent.Event) {
	a.journal.Add(journal.Record{
		Time: at, Kind: journal.Redriven, Namespace: subscription.Namespace, Subscription: subscription.Name,
		ID: ev.ID, Source: ev.Source, Type: ev.Type, Cause: ev.Extension(dispatch.ExtensionCause), Trace: tracecontext.ID(ev),
	})
}

// Purge implements admin.Store.
func (a *AdminStore) Purge(ctx context.Context, selection admin.Selection) (uint64, error) {
	return a.conn.Purge(ctx, broker.DeadLetterSelection(selection))
}

// RetryNow implements admin.Store.
func (a *AdminStore) RetryNow(ctx context.Context, subscription types.NamespacedName) (admin.Retried, error) {
	done, err := a.conn.RetryNow(ctx, a.stream, subscription)
	return admin.Retried(done), err
}

// Subscriptions implements admin.Store. The number of requests does not depend on the number of Subscriptions.
func (a *AdminStore) Subscriptions(ctx context.Context) ([]admin.Subscription, error) {
	consumers, err := a.conn.Consumers(ctx, a.stream)
	if err != nil {
		return nil, err
	}
	retries, err := a.conn.WaitingRetries(ctx)
	if err != nil {
		return nil, err
	}
	calls, err := a.conn.DetachedCalls(ctx) // after the consumers, which detached calls leave
	if err != nil {
		return nil, err
	}
	deadLetters, err := a.conn.DeadLetterCounts(ctx)
	if err != nil {
		return nil, err
	}
	return merge(consumers, calls, retries, deadLetters), nil
}

// merge sorts by namespace and name. Detached calls count as in delivery.
func merge(consumers []broker.Consumer, calls, retries, deadLetters map[types.NamespacedName]uint64) []admin.Subscription {
	all := map[types.NamespacedName]admin.Subscription{}
	for _, consumer := range consumers {
		namespace, name, _ := strings.Cut(consumer.Description, "/")
		if consumer.Name != routing.ConsumerName(namespace, name) {
			continue // consumer of another NATS client
		}
		all[types.NamespacedName{Namespace: namespace, Name: name}] = admin.Subscription{
			Consumer: true, Backlog: consumer.Backlog.Pending, AckPending: consumer.Backlog.AckPending,
		}
	}
	for _, names := range []map[types.NamespacedName]uint64{calls, retries, deadLetters} {
		for name := range names {
			if _, known := all[name]; !known {
				all[name] = admin.Subscription{} // left behind by a removed Subscription
			}
		}
	}
	for name, subscription := range all {
		subscription.Namespace, subscription.Name = name.Namespace, name.Name
		subscription.AckPending += calls[name]
		subscription.WaitingRetries, subscription.DeadLetters = retries[name], deadLetters[name]
		all[name] = subscription
	}
	return slices.SortedFunc(maps.Values(all), func(a, b admin.Subscription) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Kyma implements admin.Store.
func (a *AdminStore) Kyma(ctx context.Context) (admin.Kyma, error) {
	settings, err := a.conn.StreamSettings(ctx, a.stream)
	if err != nil {
		return admin.Kyma{}, err
	}
	consumers, err := a.conn.Consumers(ctx, a.stream)
	if err != nil {
		return admin.Kyma{}, err
	}
	found := admin.Kyma{Stream: admin.KymaStream{
		Name: a.stream, Replicas: settings.Replicas, Storage: settings.Storage, MaxBytes: settings.MaxBytes,
		MaxMsgsPerSubject: settings.MaxMsgsPerSubject, DuplicateWindow: settings.DuplicateWindow.String(), Retention: settings.Retention,
		Discard: settings.Discard, DropsOldest: !settings.DiscardsNewPerSubject, Messages: settings.Messages, Bytes: settings.Bytes,
	}}
	for i := range consumers {
		if !consumers[i].OfKyma() {
			continue
		}
		found.Consumers = append(found.Consumers, admin.KymaConsumer{
			Name: consumers[i].Name, Description: consumers[i].Description, Bound: consumers[i].Received, Pending: consumers[i].Backlog.Pending,
			AckPending: consumers[i].Backlog.AckPending, Settled: consumers[i].Progress.Settled,
		})
	}
	return found, nil
}
