package target

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

const maxRecord = 1 << 20

// Wanted selects records of events. An empty field selects all.
type Wanted struct {
	ID, Trace, Cause string
	Type, Source     string
	Namespace        string // of the Subscription; an event that was only stored has none and matches any
	Subscription     string
	Sink             string // namespace/name or name
	Kinds            []journal.Kind
	Since            time.Duration // how far back; negative for everything
	Follow           bool

	// Within is the namespace to query when the user may not query all. Note is called in this case; it may be nil.
	Within   string
	Note     func(text string)
	narrowed bool // to Within
}

// query returns the part of the selection that the bridge applies.
func (w Wanted) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{
		"id": w.ID, "trace": w.Trace, "cause": w.Cause, "type": w.Type, "source": w.Source, "subscription": w.Subscription,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for _, kind := range w.Kinds {
		query.Add("kind", string(kind))
	}
	if w.Since >= 0 {
		query.Set("since", w.Since.String())
	}
	if w.narrowed {
		query.Set("namespace", w.Within)
	}
	if w.Follow {
		query.Set("follow", strconv.FormatBool(true))
	}
	return query
}

// fits applies the rest of the selection.
func (w Wanted) fits(r journal.Record) bool {
	if r.Kind == journal.Skipped {
		return true
	}
	if w.Namespace != "" && r.Namespace != "" && r.Namespace != w.Namespace {
		return false
	}
	return w.Sink == "" || r.Sink == w.Sink || r.Sink == r.Namespace+"/"+w.Sink
}

// Events calls handle with each record, until the last one or until ctx ends.
func (c *Client) Events(ctx context.Context, wanted Wanted, handle func(journal.Record)) error {
	response, err := c.events(ctx, wanted)
	if errors.Is(err, errForbidden) && wanted.Within != "" {
		wanted.narrowed = true
		if response, err = c.events(ctx, wanted); err == nil && wanted.Note != nil {
			wanted.Note("only deliveries in namespace " + wanted.Within + ": what was stored, and other namespaces, are for users who may list and " +
				"watch events.rouse.run in all namespaces")
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxRecord)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue // a heartbeat
		}
		var record journal.Record
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return fmt.Errorf("read the journal of events: %w", err)
		}
		if wanted.fits(record) {
			handle(record)
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return exit.Errorf(exit.Unreachable, "the bridge broke off: %w", err)
	}
	return ctx.Err()
}

// events requests records. The caller closes the body.
func (c *Client) events(ctx context.Context, wanted Wanted) (*http.Response, error) {
	response, err := c.ask(ctx, http.MethodGet, "/v1/events", wanted.query(), nil)
	if err == nil && response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		return nil, failureOf(response)
	}
	return response, err
}

// Recent returns the records of all bridges, by time.
func Recent(ctx context.Context, admins []Admin, wanted Wanted) ([]journal.Record, error) {
	wanted.Follow = false
	var mu sync.Mutex
	var all []journal.Record
	group, ctx := errgroup.WithContext(ctx)
	for _, admin := range admins {
		group.Go(func() error {
			return New(admin).Events(ctx, wanted, func(r journal.Record) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, r)
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b journal.Record) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Kind, b.Kind)) })
	return all, nil
}

// Follow calls handle with the records of all bridges, one at a time. It returns when ctx ends, or when the last bridge is lost; it calls
// lost for each one before.
func Follow(ctx context.Context, admins []Admin, wanted Wanted, handle func(journal.Record), lost func(error)) error {
	wanted.Follow = true
	var mu sync.Mutex
	var failed []error
	var group sync.WaitGroup
	for _, admin := range admins {
		group.Go(func() {
			err := New(admin).Events(ctx, wanted, func(r journal.Record) {
				mu.Lock()
				defer mu.Unlock()
				handle(r)
			})
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = exit.Errorf(exit.Unreachable, "the bridge has stopped, or has ended it after an hour or because you lost the right to it: call again")
			}
			mu.Lock()
			defer mu.Unlock()
			if failed = append(failed, err); len(failed) < len(admins) {
				lost(err)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return exit.With(exit.CodeOf(failed[0]), errors.Join(failed...))
}
