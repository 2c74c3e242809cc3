package admin

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rouse-run/rouse/internal/failure"
)

// Store is where dead letters and Subscriptions are looked up. Its errors are, or wrap, those of this package where one fits.
type Store interface {
	// List returns a page of dead letters.
	List(ctx context.Context, query Query) (Page, error)
	// Get returns one dead letter with its event.
	Get(ctx context.Context, sequence uint64) (DeadLetterDetail, error)
	// Redrive delivers dead letters again. The result counts also when there is an error.
	Redrive(ctx context.Context, selection Selection) (Redriven, error)
	// Purge deletes dead letters. The count is right also when there is an error.
	Purge(ctx context.Context, selection Selection) (uint64, error)
	// Subscriptions lists what each has to do.
	Subscriptions(ctx context.Context) ([]Subscription, error)
}

// Errors of a Store that answers distinguish.
var (
	// ErrNotFound means that there is no dead letter of that sequence.
	ErrNotFound = errors.New("there is no such dead letter")
	// ErrNoConsumer means that the Subscription cannot take events back.
	ErrNoConsumer = errors.New("the Subscription has no consumer")
	// ErrStorageFull means that there is no space for events that come back.
	ErrStorageFull = errors.New("the stream is full")
	// ErrUnavailable means that the store does not answer now.
	ErrUnavailable = errors.New("the store does not answer")
)

// Selection picks dead letters. Its zero value picks all.
type Selection struct {
	Namespace    string
	Subscription string // within the namespace
	Reason       failure.Reason
	Sequence     uint64
}

// Query asks for a page of a list.
type Query struct {
	Selection
	After uint64 // the sequence before the first one of the page
	Limit int
}

// Page is part of a list, in the order of sequences.
type Page struct {
	DeadLetters []DeadLetter `json:"deadletters"`
	// Next is what to ask for After to get the next page, 0 at the end of the list. A page may be shorter than asked for and
	// yet not be the last.
	Next uint64 `json:"next,omitempty"`
}

// DeadLetter is a dead letter in a list.
type DeadLetter struct {
	Sequence     uint64     `json:"sequence"`
	Namespace    string     `json:"namespace"`
	Subscription string     `json:"subscription"`
	Reason       string     `json:"reason"`  // a code
	Message      string     `json:"message"` // the same as a sentence
	Attempts     int        `json:"attempts"`
	Status       int        `json:"status,omitempty"`
	Excerpt      string     `json:"excerpt,omitempty"`
	Time         time.Time  `json:"time"`                // when the event was given up, in UTC
	Published    *time.Time `json:"published,omitempty"` // the event, in UTC; nil when it is not known
	Subject      string     `json:"subject,omitempty"`
	ID           string     `json:"id,omitempty"`
	Source       string     `json:"source,omitempty"`
	Type         string     `json:"type,omitempty"`
}

// DeadLetterDetail has its event too, or bytes that are none.
type DeadLetterDetail struct {
	DeadLetter

	Event json.RawMessage `json:"event,omitempty"`
	Body  []byte          `json:"body,omitempty"`
}

// Redriven is what became of a selection of dead letters.
type Redriven struct {
	// Redriven events are stored for their Subscriptions again.
	Redriven uint64
	// Failed dead letters are kept as they were; Problems has the reasons.
	Failed uint64
	// Remaining dead letters are kept for the selected Subscriptions now, whatever their reasons.
	Remaining uint64
	// Problems has each reason of a failure once.
	Problems []string
}

// Subscription is what one of them has to do.
type Subscription struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Consumer is false when there are only leftovers of a Subscription.
	Consumer       bool   `json:"consumer"`
	Backlog        uint64 `json:"backlog"`        // not delivered yet
	AckPending     uint64 `json:"ackPending"`     // in delivery
	WaitingRetries uint64 `json:"waitingRetries"` // waiting for their next attempt
	DeadLetters    uint64 `json:"deadLetters"`
}
