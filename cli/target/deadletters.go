package target

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/cli/exit"
)

// DeadLetter is a dead letter. A list leaves out Event and Body.
type DeadLetter struct {
	Sequence     uint64          `json:"sequence"`
	Namespace    string          `json:"namespace"`
	Subscription string          `json:"subscription"`
	Reason       string          `json:"reason"`
	Message      string          `json:"message,omitempty"`
	Attempts     int             `json:"attempts"`
	Status       int             `json:"status,omitempty"`
	Excerpt      string          `json:"excerpt,omitempty"`
	Time         time.Time       `json:"time"`
	Published    *time.Time      `json:"published,omitempty"`
	Subject      string          `json:"subject,omitempty"`
	ID           string          `json:"id,omitempty"`
	Source       string          `json:"source,omitempty"`
	Type         string          `json:"type,omitempty"`
	Event        json.RawMessage `json:"event,omitempty"`
	Body         []byte          `json:"body,omitempty"` // of a message that is no event
}

// Selection selects dead letters. What is empty selects all.
type Selection struct {
	Namespace    string `json:"namespace,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Sequence     uint64 `json:"sequence,omitempty"`
	All          bool   `json:"all,omitempty"`
}

// Outcome is what a redrive or purge did.
type Outcome struct {
	Redriven  uint64   `json:"redriven"`
	Purged    uint64   `json:"purged"`
	Failed    uint64   `json:"failed"`
	Remaining uint64   `json:"remaining"`
	Problems  []string `json:"problems,omitempty"`
}

// DeadLetters lists those of a selection, at most limit.
func (c *Client) DeadLetters(ctx context.Context, s Selection, limit int) (deadLetters []DeadLetter, more bool, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"namespace": s.Namespace, "subscription": s.Subscription, "reason": s.Reason} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for len(deadLetters) <= limit { // one more shows that there are more
		query.Set("limit", strconv.Itoa(min(limit+1-len(deadLetters), pageSize)))
		var page struct {
			DeadLetters []DeadLetter `json:"deadletters"`
			Next        uint64       `json:"next"`
		}
		if err := c.read(ctx, "/v1/deadletters", query, &page); err != nil {
			return nil, false, err
		}
		deadLetters = append(deadLetters, page.DeadLetters...)
		if page.Next == 0 {
			return deadLetters[:min(limit, len(deadLetters))], len(deadLetters) > limit, nil
		}
		query.Set("after", strconv.FormatUint(page.Next, 10))
	}
	return deadLetters[:limit], true, nil
}

// Pages of dead letters, and how many of them are read to count reasons.
const (
	pageSize       = 1000
	maxReasonPages = 10
)

// ReasonCount is how many dead letters have a reason.
type ReasonCount struct {
	Reason string
	Count  int
}

// Reasons counts the dead letters of a selection by reason, whatever its own is; more is true if it did not read all.
func (c *Client) Reasons(ctx context.Context, s Selection) (counts []ReasonCount, more bool, err error) {
	s.Reason = ""
	deadLetters, more, err := c.DeadLetters(ctx, s, maxReasonPages*pageSize)
	if err != nil {
		return nil, false, err
	}
	byReason := map[string]int{}
	for _, deadLetter := range deadLetters {
		byReason[deadLetter.Reason]++
	}
	for reason, count := range byReason {
		counts = append(counts, ReasonCount{reason, count})
	}
	slices.SortFunc(counts, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return counts, more, nil
}

// DeadLetter returns one of a namespace, or of any for "", with its event.
func (c *Client) DeadLetter(ctx context.Context, namespace string, sequence uint64) (DeadLetter, error) {
	var deadLetter DeadLetter
	err := c.read(ctx, "/v1/deadletters/"+strconv.FormatUint(sequence, 10), inNamespace(namespace), &deadLetter)
	if exit.CodeOf(err) == exit.NotFound {
		err = NoDeadLetter(namespace, sequence)
	}
	return deadLetter, err
}

// NoDeadLetter says that there is none.
func NoDeadLetter(namespace string, sequence uint64) error {
	if namespace == "" {
		return exit.Errorf(exit.NotFound, "there is no dead letter %d", sequence)
	}
	return exit.Errorf(exit.NotFound, "there is no dead letter %d in namespace %s: name another with -n, or all with -A", sequence, namespace)
}

// Redrive delivers dead letters again. The outcome counts also when there is an error.
func (c *Client) Redrive(ctx context.Context, s Selection) (Outcome, error) {
	return c.change(ctx, "/v1/deadletters/redrive", s)
}

// Purge deletes dead letters. The outcome counts also when there is an error.
func (c *Client) Purge(ctx context.Context, s Selection) (Outcome, error) {
	return c.change(ctx, "/v1/deadletters/purge", s)
}

func (c *Client) change(ctx context.Context, path string, s Selection) (Outcome, error) {
	response, err := c.ask(ctx, http.MethodPost, path, nil, s)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return Outcome{}, exit.Errorf(exit.Unreachable, "the bridge broke off its answer, what it did is not known: %w", err)
	}
	var outcome Outcome
	unread := json.Unmarshal(text, &outcome)
	if response.StatusCode != http.StatusOK {
		return outcome, judge(response, text)
	}
	if unread != nil {
		return outcome, fmt.Errorf("read the bridge's answer: %w", unread)
	}
	return outcome, nil
}
