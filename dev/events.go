package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	structured     = "application/cloudevents+json"
	publishTimeout = 10 * time.Second
	maxAnswer      = 4 << 10
	maxEvents      = 10_000 // of one file
)

// readEvents reads files with one event or an array of them.
func readEvents(files []string) ([]cloudevent.Event, error) {
	var all []cloudevent.Event
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // the user names it
		if err != nil {
			return nil, fmt.Errorf("read the events of --publish: %w", err)
		}
		events, err := parseEvents(content)
		if err != nil {
			return nil, fmt.Errorf("read the events of --publish: %s: %w", file, err)
		}
		all = append(all, events...)
	}
	return all, nil
}

func parseEvents(content []byte) ([]cloudevent.Event, error) {
	bodies := [][]byte{content}
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("[")) {
		var err error
		if bodies, err = cloudevent.SplitBatch(content, maxEvents); err != nil {
			return nil, err
		}
	}
	events := make([]cloudevent.Event, 0, len(bodies))
	for i, body := range bodies {
		ev, err := cloudevent.FromStructured(body)
		if err == nil {
			err = ev.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("event %d is not a CloudEvent in JSON: %w", i+1, err)
		}
		events = append(events, ev)
	}
	if len(events) == 0 {
		return nil, errors.New("the file contains no events")
	}
	return events, nil
}

// withID returns the event with a new id, because an event with a known id is deduplicated. Its data are unchanged. Where the id begins
// with the id in the data, the new id does as well.
func withID(ev cloudevent.Event, suffix string) cloudevent.Event {
	var data struct{ ID string }
	if json.Unmarshal(ev.Data, &data) == nil && data.ID != "" {
		if rest, found := strings.CutPrefix(ev.ID, data.ID); found {
			ev.ID = data.ID + suffix + rest
			return ev
		}
	}
	ev.ID += suffix
	return ev
}

// publisher sends events to the publish endpoint, as Functions do.
type publisher struct {
	url    string
	client *http.Client
}

func newPublisher(url string) *publisher {
	return &publisher{url: url, client: &http.Client{Timeout: publishTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (p *publisher) publish(ctx context.Context, events []cloudevent.Event) error {
	for i := range events {
		if err := p.one(ctx, &events[i]); err != nil {
			return fmt.Errorf("publish event %q: %w", events[i].ID, err)
		}
	}
	return nil
}

func (p *publisher) one(ctx context.Context, ev *cloudevent.Event) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(ev.AppendStructured(nil)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", structured)
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // the status is enough
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return nil
}
