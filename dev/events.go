package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	idMember       = "id"
	dataMember     = "data"
)

// event is a CloudEvent in structured JSON.
type event map[string]json.RawMessage

// readEvents reads files with one event or an array of them.
func readEvents(files []string) ([]event, error) {
	var all []event
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

func parseEvents(content []byte) ([]event, error) {
	bodies := []json.RawMessage{content}
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("[")) {
		if err := json.Unmarshal(content, &bodies); err != nil {
			return nil, fmt.Errorf("no JSON: %w", err)
		}
	}
	events := make([]event, 0, len(bodies))
	for i, body := range bodies {
		var e event
		if err := json.Unmarshal(body, &e); err != nil {
			return nil, fmt.Errorf("event %d is no JSON object: %w", i+1, err)
		}
		read, err := cloudevent.FromStructured(body)
		if err == nil {
			err = read.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("event %d is no CloudEvent: %w", i+1, err)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, errors.New("there are no events in it")
	}
	return events, nil
}

// anew is the event with an id of its own, because one that was seen is stored once. Handlers often make the ids of
// what they emit from the id of the data, so that gets the same suffix.
func (e event) anew(suffix string) (event, error) {
	again := maps.Clone(e)
	var id string
	if err := json.Unmarshal(e[idMember], &id); err != nil {
		return nil, fmt.Errorf("read the id of the event: %w", err)
	}
	fresh := id + suffix
	var data event
	var dataID string
	if json.Unmarshal(e[dataMember], &data) == nil && json.Unmarshal(data[idMember], &dataID) == nil && dataID != "" {
		changed := maps.Clone(data)
		changed[idMember] = quoted(dataID + suffix)
		body, err := json.Marshal(changed)
		if err != nil {
			return nil, fmt.Errorf("write the data of the event: %w", err)
		}
		again[dataMember] = body
		if rest, found := strings.CutPrefix(id, dataID); found {
			fresh = dataID + suffix + rest
		}
	}
	again[idMember] = quoted(fresh)
	return again, nil
}

func quoted(text string) json.RawMessage {
	body, _ := json.Marshal(text) //nolint:errchkjson // a string always has a JSON
	return body
}

// publisher publishes to the endpoint that everybody publishes to.
type publisher struct {
	url    string
	client *http.Client
}

func newPublisher(url string) *publisher {
	return &publisher{url: url, client: &http.Client{Timeout: publishTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (p *publisher) publish(ctx context.Context, events []event) error {
	for _, e := range events {
		if err := p.one(ctx, e); err != nil {
			return fmt.Errorf("publish event %s: %w", e[idMember], err)
		}
	}
	return nil
}

func (p *publisher) one(ctx context.Context, e event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write it: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", structured)
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // the status says enough
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return nil
}
