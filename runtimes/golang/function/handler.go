package function

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Handler is the type of handlers. The first is called as by net/http. The others get the event of a request, or its
// body as the data of an event; their result becomes the response: nil is an empty one, a string is text/html, []byte
// are bytes, an Event is an event, which the bridge publishes, a Response is a complete response, and any other value
// is JSON.
type Handler interface {
	func(http.ResponseWriter, *http.Request) |
		func(context.Context, Event) error |
		func(context.Context, Event) (any, error) |
		func(context.Context, Event) (*Event, error) |
		func(context.Context, Event) (*Response, error)
}

// Response is a response with a status and headers.
type Response struct {
	Status int // 0: 200
	Header http.Header
	Body   any
}

// Request returns the HTTP request of a call, or nil outside of a call. Its body has been read: it is the event's data.
func Request(ctx context.Context) *http.Request {
	if call := callOf(ctx); call != nil {
		return call.request
	}
	return nil
}

// adapt converts all handlers to one type.
func adapt(handler any) http.HandlerFunc {
	switch handle := handler.(type) {
	case func(http.ResponseWriter, *http.Request):
		return handle
	case func(context.Context, Event) error:
		return called(func(ctx context.Context, event Event) (any, error) { return nil, handle(ctx, event) })
	case func(context.Context, Event) (any, error):
		return called(handle)
	case func(context.Context, Event) (*Event, error):
		return called(func(ctx context.Context, event Event) (any, error) {
			made, err := handle(ctx, event)
			if made == nil {
				return nil, err
			}
			return made, err
		})
	case func(context.Context, Event) (*Response, error):
		return called(func(ctx context.Context, event Event) (any, error) {
			made, err := handle(ctx, event)
			if made == nil {
				return nil, err
			}
			return made, err
		})
	}
	panic("function: the type of the handler is none of Handler") // the compiler has rejected it
}

func called(handle func(context.Context, Event) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		event, err := requestEvent(r)
		if err != nil {
			Fail(w, err)
			return
		}
		value, err := handle(r.Context(), event)
		if err == nil {
			err = respond(w, 0, value)
		}
		if err != nil {
			Fail(w, err)
		}
	}
}

// respond writes the result of a handler.
func respond(w http.ResponseWriter, status int, value any) error {
	if status == 0 {
		status = http.StatusOK
	}
	switch value := value.(type) {
	case Response:
		return respondWith(w, value)
	case *Response:
		return respondWith(w, *value)
	case Event:
		return respondEvent(w, status, value)
	case *Event:
		return respondEvent(w, status, *value)
	}
	contentType, body, err := bodyFor(value)
	if err != nil {
		return err
	}
	if contentType != "" && w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
	return nil
}

// bodyFor returns the body of a response, and its content type.
func bodyFor(value any) (contentType string, body []byte, err error) {
	switch value := value.(type) {
	case nil:
		return "", nil, nil
	case string:
		return "text/html; charset=utf-8", []byte(value), nil
	case []byte:
		return "application/octet-stream", value, nil
	}
	body, err = json.Marshal(value)
	return "application/json", body, err
}

func respondWith(w http.ResponseWriter, response Response) error {
	for name, values := range response.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if response.Status != 0 && (response.Status < 200 || response.Status > 999) {
		response.Status = http.StatusInternalServerError
	}
	return respond(w, response.Status, response.Body)
}

// respondEvent writes an event in binary mode, to be published.
func respondEvent(w http.ResponseWriter, status int, event Event) error {
	if event.ID == "" {
		event.ID = newID()
	}
	if err := event.complete(); err != nil {
		return err
	}
	for name, value := range event.attributes() {
		if name == "datacontenttype" {
			continue
		}
		if err := validName(name); err != nil {
			return err
		}
		w.Header().Set("Ce-"+name, encoded(value))
	}
	contentType := event.DataContentType
	if contentType == "" {
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(event.Data) // the client may have disconnected
	return nil
}

// Error is a failure whose status and text are sent to the client. For an event, 4xx except 408 and 429 means that a
// retry cannot succeed.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Errorf returns an Error: a handler that returns it responds with that status and text.
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}

const internalError = "Internal Server Error"

// Fail responds with an Error as it is, and to any other error with 500 without its reason, which is written to stderr.
func Fail(w http.ResponseWriter, err error) {
	if known := (*Error)(nil); errors.As(err, &known) && known.Status >= 400 && known.Status < 600 {
		note(w, err)
		http.Error(w, known.Text, known.Status)
		return
	}
	fmt.Fprintln(os.Stderr, err)
	note(w, err)
	http.Error(w, internalError, http.StatusInternalServerError)
}

// note records the error of a call for its span.
func note(w http.ResponseWriter, err error) {
	if guarded, ok := w.(*answer); ok {
		guarded.fail(err)
	}
}

// ownFrames returns a stack without the frames of the server and of the language, each of which has two lines.
func ownFrames(stack string) string {
	lines := strings.SplitAfter(stack, "\n")
	var kept strings.Builder
	for i := 0; i < len(lines); i++ {
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
			if file := lines[i+1][1:]; !strings.HasPrefix(file, "runtime/") && !strings.HasPrefix(file, "github.com/rouse-run/rouse@") {
				kept.WriteString(lines[i] + lines[i+1])
			}
			i++
			continue
		}
		kept.WriteString(lines[i])
	}
	return kept.String()
}

const structured = "application/cloudevents+json"

// EventOf returns the CloudEvent of a request, or nil without one. The body can still be read afterwards. Its error is
// the sender's fault: Fail responds to it with 400.
func EventOf(r *http.Request) (*Event, error) {
	if mediaType(r.Header.Get("Content-Type")) == structured {
		return fromBody(r)
	}
	if r.Header.Get("Ce-Type") == "" || r.Header.Get("Ce-Source") == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	return fromHeaders(r)
}

// requestEvent returns the argument of an event handler for a request: its event, or its body as data.
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

// decoded decodes the percent-encoding of an attribute's header.
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

// textOf returns the text form of an attribute's value: that of a string without its quotes.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// bodyOf reads the body, which can be read again. The server bounds it.
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
