package framework

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Event is one CloudEvent to publish.
type Event struct {
	ID   string
	Type string
	Data any
}

// Publish posts the event to the eventbridge's Service in binary mode and returns when it is stored. Answers
// that ask to come back (429, 5xx) are tried again with the same id for some minutes, as a careful publisher does.
func (c *Cluster) Publish(ctx context.Context, event Event) error {
	_, err := c.PublishCounting(ctx, event)
	return err
}

// PublishCounting is Publish, and says how many attempts were refused before.
func (c *Cluster) PublishCounting(ctx context.Context, event Event) (refused int, err error) {
	for deadline := time.Now().Add(slack * time.Minute); ; refused++ {
		status, answer, err := c.TryPublish(ctx, event)
		if err == nil && status == http.StatusNoContent {
			return refused, nil
		}
		retryable := err != nil || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
		if !retryable || time.Now().After(deadline) {
			return refused, errors.Join(fmt.Errorf("publish %s %s: status %d: %s", event.Type, event.ID, status, answer), err)
		}
		select {
		case <-ctx.Done():
			return refused, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// TryPublish posts the event once and returns the answer.
func (c *Cluster) TryPublish(ctx context.Context, event Event) (status int, answer string, err error) {
	body, err := json.Marshal(event.Data)
	if err != nil {
		return 0, "", fmt.Errorf("encode data: %w", err)
	}
	header := http.Header{
		"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Source": {Source},
		"Ce-Id": {event.ID}, "Ce-Type": {event.Type}, "Ce-Time": {time.Now().UTC().Format(time.RFC3339Nano)},
	}
	return c.Request(ctx, http.MethodPost, System, "rouse-eventbridge", "publish", header, body)
}

// Request sends one HTTP request to a Service's port 80 through the API server's proxy.
func (c *Cluster) Request(
	ctx context.Context, method, namespace, service, path string, header http.Header, body []byte,
) (status int, answer string, err error) {
	return c.RequestWithin(ctx, 30*time.Second, method, namespace, service, path, header, body)
}

// RequestWithin is Request for answers that may take longer.
func (c *Cluster) RequestWithin(
	ctx context.Context, limit time.Duration, method, namespace, service, path string, header http.Header, body []byte,
) (status int, answer string, err error) {
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		return 0, "", fmt.Errorf("make a transport: %w", err)
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/services/%s:80/proxy/%s",
		strings.TrimSuffix(c.Config.Host, "/"), namespace, service, path)
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("make a request: %w", err)
	}
	request.Header = header
	response, err := (&http.Client{Transport: transport, Timeout: limit}).Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return response.StatusCode, "", fmt.Errorf("read the answer: %w", err)
	}
	return response.StatusCode, string(text), nil
}
