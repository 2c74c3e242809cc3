package function

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

const structured = "application/cloudevents+json"

// EventOf is the CloudEvent of a request, nil when it carries none. It leaves the body to be read. Its error is the
// sender's fault: Fail answers it with 400.
func EventOf(r *http.Request) (*Event, error) {
	if mediaType(r.Header.Get("Content-Type")) == structured {
		return fromBody(r)
	}
	if r.Header.Get("Ce-Type") == "" || r.Header.Get("Ce-Source") == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	return fromHeaders(r)
}

// requestEvent is what an event handler gets of a request: its event, or its body as data.
func requestEvent(r *http.Request) (Event, error) {
	event, err := EventOf(r)
	if err != nil {
		return Event{}, err
	}
	if event != nil {
		return *event, nil
	}
	body, err := bodyOf(r)
	return Event{DataContentType: r.Header.Get("Content-Type"), Data: body}, err
}

func fromHeaders(r *http.Request) (*Event, error) {
	event := &Event{DataContentType: r.Header.Get("Content-Type")}
	for name, values := range r.Header {
		attribute, found := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !found || len(values) == 0 {
			continue
		}
		if err := event.set(attribute, decoded(values[0])); err != nil {
			return nil, err
		}
	}
	if err := event.complete(); err != nil {
		return nil, err
	}
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	event.Data = body
	return event, nil
}

// decoded takes the percent-encoding of an attribute's header away.
func decoded(value string) string {
	if strings.Contains(value, "%") {
		if text, err := url.PathUnescape(value); err == nil {
			return text
		}
	}
	return value
}

func fromBody(r *http.Request) (*Event, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, Errorf(http.StatusBadRequest, "malformed CloudEvent: the body is not a JSON object")
	}
	event := &Event{ID: newID()}
	for name, value := range fields {
		if name == "data" || name == "data_base64" {
			continue
		}
		if err := event.set(name, textOf(value)); err != nil {
			return nil, err
		}
	}
	if err := event.complete(); err != nil {
		return nil, err
	}
	event.Data, err = dataOf(fields, event.DataContentType)
	return event, err
}

func dataOf(fields map[string]json.RawMessage, contentType string) ([]byte, error) {
	if encoded, found := fields["data_base64"]; found {
		data, err := base64.StdEncoding.DecodeString(textOf(encoded))
		if err != nil {
			return nil, Errorf(http.StatusBadRequest, "malformed CloudEvent: data_base64: %v", err)
		}
		return data, nil
	}
	data := fields["data"]
	if string(data) == "null" {
		return nil, nil
	}
	var text string
	if contentType != "" && !isJSON(contentType) && json.Unmarshal(data, &text) == nil {
		return []byte(text), nil
	}
	return data, nil
}

// textOf is the text form of an attribute's value: that of a string without its quotes.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// bodyOf reads the body and leaves it to be read again. The server bounds it.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if again, ok := r.Body.(*replay); ok {
		return again.content, nil
	}
	content, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, Errorf(http.StatusRequestEntityTooLarge, "Request Entity Too Large")
	}
	if err != nil {
		return nil, Errorf(http.StatusBadRequest, "the body cannot be read")
	}
	r.Body = &replay{Reader: bytes.NewReader(content), content: content}
	return content, nil
}

// replay is a body that has been read.
type replay struct {
	*bytes.Reader

	content []byte
}

func (*replay) Close() error { return nil }
