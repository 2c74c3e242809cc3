package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/failure"
)

// Store is the store of dead letters and consumers. Its errors are or wrap those of package failure.
type Store interface {
	DeadLetterStore
	ConsumerStore
}

// DeadLetterStore stores dead letters.
type DeadLetterStore interface {
	// List returns a page of dead letters.
	List(ctx context.Context, query Query) (Page, error)
	// Get returns one dead letter with its event.
	Get(ctx context.Context, sequence uint64) (DeadLetterDetail, error)
	// Redrive delivers dead letters again. The result is valid also with an error.
	Redrive(ctx context.Context, selection Selection) (Redriven, error)
	// RedriveEdited delivers one dead letter again, with other data.
	RedriveEdited(ctx context.Context, selection Selection, data []byte) (Redriven, error)
	// Purge deletes dead letters. The count is valid also with an error.
	Purge(ctx context.Context, selection Selection) (uint64, error)
	// RetryNow delivers what waits for its next attempt. The result is valid also with an error.
	RetryNow(ctx context.Context, subscription types.NamespacedName) (Retried, error)
}

// ConsumerStore knows the consumers of the stream of events.
type ConsumerStore interface {
	// Subscriptions returns the backlog of each Subscription.
	Subscriptions(ctx context.Context) ([]Subscription, error)
	// Kyma returns the stream, and the consumers that Kyma's eventing-manager has in it.
	Kyma(ctx context.Context) (Kyma, error)
}

// Selection picks dead letters. Its zero value picks all.
type Selection struct {
	Namespace    string
	Subscription string // within the namespace
	Reason       failure.Reason
	Sequence     uint64
}

// Query selects a page of a list.
type Query struct {
	Selection
	After uint64 // the sequence before the first one of the page
	Limit int
}

// Page is part of a list, in the order of sequences.
type Page struct {
	DeadLetters []DeadLetter `json:"deadletters"`
	// Next is the value of After for the next page, 0 at the end of the list. A page may be shorter than the limit
	// without being the last one.
	Next uint64 `json:"next,omitempty"`
}

// DeadLetter is a dead letter in a list.
type DeadLetter struct {
	Sequence     uint64     `json:"sequence"`
	Namespace    string     `json:"namespace"`
	Subscription string     `json:"subscription"`
	Reason       string     `json:"reason"`  // a code
	Message      string     `json:"message"` // the reason as a sentence
	Attempts     int        `json:"attempts"`
	Status       int        `json:"status,omitempty"`
	Excerpt      string     `json:"excerpt,omitempty"`
	Time         time.Time  `json:"time"`                // when the event became a dead letter, in UTC
	Published    *time.Time `json:"published,omitempty"` // when the event was published, in UTC; nil if unknown
	Subject      string     `json:"subject,omitempty"`
	ID           string     `json:"id,omitempty"`
	Source       string     `json:"source,omitempty"`
	Type         string     `json:"type,omitempty"`
}

// DeadLetterDetail has the event too, or its bytes if they are not an event.
type DeadLetterDetail struct {
	DeadLetter

	Event json.RawMessage `json:"event,omitempty"`
	Body  []byte          `json:"body,omitempty"`
}

// Redriven is the result of a redrive.
type Redriven struct {
	// Redriven events are stored for their Subscriptions again.
	Redriven uint64
	// Failed dead letters are unchanged; Problems has the reasons.
	Failed uint64
	// Remaining dead letters of the selected Subscriptions, whatever their reasons.
	Remaining uint64
	// Problems has each reason of a failure once.
	Problems []string
}

// Subscription is the backlog of a Subscription.
type Subscription struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Consumer is false when only leftovers of a Subscription exist.
	Consumer       bool   `json:"consumer"`
	Backlog        uint64 `json:"backlog"`        // not delivered yet
	AckPending     uint64 `json:"ackPending"`     // in delivery
	WaitingRetries uint64 `json:"waitingRetries"` // waiting for their next attempt
	DeadLetters    uint64 `json:"deadLetters"`
}

// Validate rejects names that no Subscription can have, and reasons that no dead letter has.
func (s Selection) Validate() error {
	var errs []error
	if s.Namespace != "" && len(validation.IsDNS1123Label(s.Namespace)) > 0 {
		errs = append(errs, errors.New("namespace: not a valid name of a namespace"))
	}
	if s.Subscription != "" && len(validation.IsDNS1123Subdomain(s.Subscription)) > 0 {
		errs = append(errs, errors.New("subscription: not a valid name of a Subscription"))
	}
	if s.Subscription != "" && s.Namespace == "" {
		errs = append(errs, errors.New("subscription: its namespace is missing, add namespace"))
	}
	if s.Reason != "" {
		if _, err := failure.ParseDeadLetter(string(s.Reason)); err != nil {
			errs = append(errs, fmt.Errorf("reason: %w", err))
		}
	}
	return errors.Join(errs...)
}

// subscriptions returns the backlog of each Subscription.
func (h *Handler) subscriptions(_ http.ResponseWriter, r *http.Request) (action, error) {
	namespace, err := namespaceOf(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		all, err := h.store.Subscriptions(r.Context())
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(s Subscription) bool { return namespace != "" && s.Namespace != namespace })
		if all == nil {
			all = []Subscription{}
		}
		answer(w, http.StatusOK, struct {
			Subscriptions []Subscription `json:"subscriptions"`
		}{all})
		return nil
	}
	return action{identity.ListSubscriptions(namespace), do}, err
}

// list returns a page of dead letters.
func (h *Handler) list(_ http.ResponseWriter, r *http.Request) (action, error) {
	query, err := ParseQuery(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		page, err := h.store.List(r.Context(), query)
		if err != nil {
			return err
		}
		if page.DeadLetters == nil {
			page.DeadLetters = []DeadLetter{}
		}
		answer(w, http.StatusOK, page)
		return nil
	}
	return action{identity.ListDeadLetters(query.Namespace), do}, err
}

// get returns one dead letter. One of another namespace than requested is not found, so that sequences reveal nothing
// about other namespaces.
func (h *Handler) get(_ http.ResponseWriter, r *http.Request) (action, error) {
	sequence, err := number("sequence", r.PathValue("sequence"))
	if err != nil {
		return action{}, err
	}
	namespace, err := namespaceOf(r.URL.Query())
	do := func(w http.ResponseWriter, r *http.Request, _ identity.User) error {
		found, err := h.store.Get(r.Context(), sequence)
		if err == nil && namespace != "" && found.Namespace != namespace {
			err = failure.ErrDeadLetterNotFound
		}
		if err != nil {
			return err
		}
		answer(w, http.StatusOK, found)
		return nil
	}
	return action{identity.GetDeadLetter(namespace), do}, err
}

// runTimeout bounds a redrive or purge; the rest takes another request.
const runTimeout = 5 * time.Minute

// redrive delivers dead letters again.
func (h *Handler) redrive(w http.ResponseWriter, r *http.Request) (action, error) {
	selection, err := selectionOf(w, r)
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
		defer cancel()
		done, err := h.store.Redrive(ctx, selection)
		h.redriven(w, "dead letters redriven", user, selection, done, turnError(ctx, err))
		return nil
	}
	return action{identity.Redrive(selection.Namespace), do}, err
}

// redriveEdited delivers one dead letter again, with the data of the request.
func (h *Handler) redriveEdited(w http.ResponseWriter, r *http.Request) (action, error) {
	selection, data, err := editOf(w, r)
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
		defer cancel()
		done, err := h.store.RedriveEdited(ctx, selection, data)
		h.redriven(w, "dead letter redriven with other data", user, selection, done, turnError(ctx, err))
		return nil
	}
	return action{identity.Redrive(selection.Namespace), do}, err
}

// redriven logs and responds with the result of a redrive.
func (h *Handler) redriven(w http.ResponseWriter, what string, user identity.User, s Selection, done Redriven, err error) {
	h.audit(what, user, s, "redriven", done.Redriven, "failed", done.Failed, "remaining", done.Remaining)
	result := redrivenBody{
		Redriven: &done.Redriven, Failed: &done.Failed, Remaining: &done.Remaining, Problems: done.Problems,
	}
	h.finish(w, &result.Error, err, &result)
}

// purge deletes dead letters.
func (h *Handler) purge(w http.ResponseWriter, r *http.Request) (action, error) {
	selection, err := selectionOf(w, r)
	do := func(w http.ResponseWriter, r *http.Request, user identity.User) error {
		ctx, cancel := context.WithTimeout(r.Context(), runTimeout)
		defer cancel()
		count, err := h.store.Purge(ctx, selection)
		h.audit("dead letters purged", user, selection, "purged", count)
		result := purgedBody{Purged: count}
		h.finish(w, &result.Error, turnError(ctx, err), &result)
		return nil
	}
	return action{identity.Purge(selection.Namespace), do}, err
}

// audit logs who changed what, also after an error. An empty namespace means all namespaces.
func (h *Handler) audit(what string, user identity.User, s Selection, counts ...any) {
	h.log.Info(what, append([]any{
		"user", user.Name, "namespace", s.Namespace, "subscription", s.Subscription, "reason", s.Reason, "sequence", s.Sequence,
	}, counts...)...)
}

// turnError returns the reason why a request was stopped for the sake of others.
func turnError(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTurnOver) {
		return errTurnOver
	}
	return err
}

// finish responds with the result so far, also after an error.
func (h *Handler) finish(w http.ResponseWriter, text *string, err error, result any) {
	status := http.StatusOK
	if err != nil {
		status, *text = h.responseFor(err)
	}
	answer(w, status, result)
}

// withoutReadDeadline removes the read deadline of a request, which would end it while it waits or runs: both have
// bounds of their own.
func withoutReadDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // recorders of tests have none
}
