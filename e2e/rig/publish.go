package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Event is a CloudEvent in binary mode.
type Event struct {
	ID, Source, Type string
	Data             string
	Header           map[string]string // more headers; Content-Type is application/json by default
}

// Publish posts the event to the URL once and returns the response: 204 when it is stored.
func (e Event) Publish(ctx context.Context, client *http.Client, url string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(e.Data))
	if err != nil {
		return 0, "", fmt.Errorf("publish %s: %w", e.ID, err)
	}
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": e.ID, "Ce-Source": e.Source, "Ce-Type": e.Type, "Content-Type": "application/json",
	} {
		request.Header.Set(name, value)
	}
	for name, value := range e.Header {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("publish %s: %w", e.ID, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body) // the status suffices
	return response.StatusCode, strings.TrimSpace(string(text)), nil
}
