package target

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/skew"
)

const maxFailure = 64 << 10

// errForbidden is returned to an authenticated user without the right.
var errForbidden = errors.New("the bridge refuses that")

// Client is a client of one bridge's admin API.
type Client struct {
	admin Admin
	http  *http.Client
}

// New returns a Client.
func New(admin Admin) *Client {
	return &Client{admin: admin, http: &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this bridge only
	}}
}

// ask sends a request and returns the response of any status. The caller closes the body.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, fmt.Errorf("ask the bridge: %w", err)
		}
	}
	response, err := c.admin.Ask(ctx, c.http, method, path, query, &content)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, exit.Errorf(exit.Unreachable, "the admin API of the bridge does not answer: %w", err)
	}
	return response, nil
}

// read gets a JSON object.
func (c *Client) read(ctx context.Context, path string, query url.Values, into any) error {
	return c.exchange(ctx, http.MethodGet, path, query, nil, into)
}

// exchange sends a request and decodes the JSON object of a successful response.
func (c *Client) exchange(ctx context.Context, method, path string, query url.Values, body, into any) error {
	response, err := c.ask(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return failureOf(response)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("read the bridge's answer: %w", err)
	}
	return nil
}

// failureOf returns the error of a response.
func failureOf(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxFailure)) // optional: the status suffices
	return judge(response, text)
}

// judge returns the error of a response. When a bridge of another release does not support the request, it names the required version.
func judge(response *http.Response, text []byte) error {
	status := response.StatusCode
	var failure struct {
		Error string `json:"error"`
	}
	message := strings.TrimSpace(string(text))
	if json.Unmarshal(text, &failure) == nil && failure.Error != "" {
		message = failure.Error
	}
	if err := unfit(skew.This(daemon.Version()), response, message); err != nil {
		return exit.Errorf(exit.Unreachable, "%w (it said: %s)", err, message)
	}
	switch status {
	case http.StatusUnauthorized:
		return exit.Errorf(exit.Unreachable, "the bridge does not accept your login: %s", message)
	case http.StatusForbidden:
		return exit.Errorf(exit.Unreachable, "%w: %s", errForbidden, message)
	case http.StatusNotFound, http.StatusConflict: // the Subscription of a redrive does not exist
		return exit.Errorf(exit.NotFound, "%s", message)
	case http.StatusServiceUnavailable:
		return exit.Errorf(exit.Failed, "the bridge cannot do that now: %s", message)
	}
	return exit.Errorf(exit.Refused, "the bridge refuses: %s", message)
}

// unfit explains a failure by the releases of bridge and client, unless the status shows that the bridge understood the request.
func unfit(client skew.Side, response *http.Response, message string) error {
	server, told := skew.Parse(response.Header.Get(skew.Header))
	if !told {
		return nil
	}
	if err := skew.Serves(server, client); err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusBadRequest, response.StatusCode == http.StatusMethodNotAllowed,
		response.StatusCode == http.StatusNotFound && message == skew.NoSuchPath:
		return skew.Knows(server, client)
	}
	return nil
}

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
	Body         []byte          `json:"body,omitempty"` // of a message that is not an event
}

// Selection selects dead letters. An empty field selects all.
type Selection struct {
	Namespace    string `json:"namespace,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Sequence     uint64 `json:"sequence,omitempty"`
	All          bool   `json:"all,omitempty"`

	// After is the sequence before the first one of a list.
	After uint64 `json:"-"`
}

// Outcome is the result of a redrive or a purge.
type Outcome struct {
	Redriven  uint64   `json:"redriven"`
	Purged    uint64   `json:"purged"`
	Failed    uint64   `json:"failed"`
	Remaining uint64   `json:"remaining"`
	Problems  []string `json:"problems,omitempty"`
}

// DeadLetters returns the selected dead letters, at most limit.
func (c *Client) DeadLetters(ctx context.Context, s Selection, limit int) (deadLetters []DeadLetter, more bool, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"namespace": s.Namespace, "subscription": s.Subscription, "reason": s.Reason} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.After > 0 {
		query.Set("after", strconv.FormatUint(s.After, 10))
	}
	for len(deadLetters) <= limit { // one more reveals that there are more
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

// ReasonCount counts the dead letters with a reason.
type ReasonCount struct {
	Reason string
	Count  int
}

// Reasons counts the selected dead letters by reason, ignoring the selection's own; more reports that it did not read all.
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

// DeadLetter returns a dead letter of a namespace, or of any for "", with its event.
func (c *Client) DeadLetter(ctx context.Context, namespace string, sequence uint64) (DeadLetter, error) {
	var deadLetter DeadLetter
	err := c.read(ctx, "/v1/deadletters/"+strconv.FormatUint(sequence, 10), inNamespace(namespace), &deadLetter)
	if exit.CodeOf(err) == exit.NotFound {
		err = NoDeadLetter(namespace, sequence)
	}
	return deadLetter, err
}

// NoDeadLetter returns the error for a dead letter that does not exist.
func NoDeadLetter(namespace string, sequence uint64) error {
	if namespace == "" {
		return exit.Errorf(exit.NotFound, "there is no dead letter %d", sequence)
	}
	return exit.Errorf(exit.NotFound, "there is no dead letter %d in namespace %s: name another with -n, or all with -A", sequence, namespace)
}

// Redrive redelivers dead letters. The outcome is valid also when there is an error.
func (c *Client) Redrive(ctx context.Context, s Selection) (Outcome, error) {
	return c.change(ctx, "/v1/deadletters/redrive", s)
}

// RedriveEdited redelivers one dead letter of a namespace, or of any for "", with other data, which are JSON.
func (c *Client) RedriveEdited(ctx context.Context, namespace string, sequence uint64, data json.RawMessage) (Outcome, error) {
	return c.change(ctx, "/v1/deadletters/"+strconv.FormatUint(sequence, 10)+"/redrive", struct {
		Namespace string          `json:"namespace,omitempty"`
		Data      json.RawMessage `json:"data"`
	}{namespace, data})
}

// EventTypes returns the JSON Schemas of types of events, by their types. They are the same for all namespaces.
func (c *Client) EventTypes(ctx context.Context, namespace string) (map[string]json.RawMessage, error) {
	var found struct {
		Types []struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"types"`
	}
	err := c.read(ctx, "/v1/eventtypes", inNamespace(namespace), &found)
	texts := make(map[string]json.RawMessage, len(found.Types))
	for _, each := range found.Types {
		texts[each.Type] = each.Schema
	}
	return texts, err
}

// Retried is what became of the events of a Subscription that waited for their next attempt.
type Retried struct {
	Retried   uint64   `json:"retried"`
	Failed    uint64   `json:"failed"`
	Remaining uint64   `json:"remaining"`
	Problems  []string `json:"problems,omitempty"`
}

// RetryNow delivers what waits for its next attempt.
func (c *Client) RetryNow(ctx context.Context, namespace, subscription string) (Retried, error) {
	var done Retried
	err := c.exchange(ctx, http.MethodPost, "/v1/subscriptions/retry", nil, map[string]string{
		"namespace": namespace, "subscription": subscription,
	}, &done)
	return done, err
}

// Purge deletes dead letters. The outcome is valid also when there is an error.
func (c *Client) Purge(ctx context.Context, s Selection) (Outcome, error) {
	return c.change(ctx, "/v1/deadletters/purge", s)
}

func (c *Client) change(ctx context.Context, path string, body any) (Outcome, error) {
	response, err := c.ask(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return Outcome{}, exit.Errorf(exit.Unreachable, "the bridge broke off its response, so the outcome is unknown: %w", err)
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

// Work is the backlog of a Subscription.
type Work struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Consumer is false when only leftovers of a deleted Subscription exist.
	Consumer       bool   `json:"consumer"`
	Backlog        uint64 `json:"backlog"`
	AckPending     uint64 `json:"ackPending"`
	WaitingRetries uint64 `json:"waitingRetries"`
	DeadLetters    uint64 `json:"deadLetters"`
}

// Work returns the backlogs of the Subscriptions of a namespace, or of all for "".
func (c *Client) Work(ctx context.Context, namespace string) ([]Work, error) {
	var answer struct {
		Subscriptions []Work `json:"subscriptions"`
	}
	err := c.read(ctx, "/v1/subscriptions", inNamespace(namespace), &answer)
	return answer.Subscriptions, err
}

// LastWake returns the last wake of a Function that the bridge has heard of, nil if there is none.
func (c *Client) LastWake(ctx context.Context, namespace, name string) (*activation.Wake, error) {
	wakes, err := c.LastWakes(ctx, namespace)
	return wakes[name], err
}

// LastWakes returns the last wakes in a namespace that the bridge has heard of, by Function.
func (c *Client) LastWakes(ctx context.Context, namespace string) (map[string]*activation.Wake, error) {
	var answer struct {
		Wakes []struct {
			Name string `json:"name"`
			activation.Wake
		} `json:"wakes"`
	}
	err := c.read(ctx, "/v1/wakes", inNamespace(namespace), &answer)
	wakes := make(map[string]*activation.Wake, len(answer.Wakes))
	for i := range answer.Wakes {
		wakes[answer.Wakes[i].Name] = &answer.Wakes[i].Wake
	}
	return wakes, err
}

// inNamespace returns the query for a namespace, or for all.
func inNamespace(namespace string) url.Values {
	if namespace == "" {
		return nil
	}
	return url.Values{"namespace": {namespace}}
}

// Idle reports whether no Subscription has pending events, in all namespaces, or in one where the user has no right to all.
func (c *Client) Idle(ctx context.Context, within string) (bool, error) {
	all, err := c.Work(ctx, "")
	if errors.Is(err, errForbidden) && within != "" {
		all, err = c.Work(ctx, within)
	}
	if err != nil {
		return false, err
	}
	for _, w := range all {
		if w.Consumer && w.Backlog+w.AckPending+w.WaitingRetries > 0 {
			return false, nil
		}
	}
	return true, nil
}
