package function

import (
	"context"
	"encoding/json"
	"net/http"
)

// Handler is what a handler may look like. The first is called as net/http calls one. The others get the event of a
// request, or its body as the data of one; what they return becomes the answer: nil is an empty one, a string is text/html, []byte
// are bytes, an Event is an event, which the bridge publishes, a Response is all of an answer, and anything else is JSON.
type Handler interface {
	func(http.ResponseWriter, *http.Request) |
		func(context.Context, Event) error |
		func(context.Context, Event) (any, error) |
		func(context.Context, Event) (*Event, error) |
		func(context.Context, Event) (*Response, error)
}

// Response is an answer with a status and headers.
type Response struct {
	Status int // 0: 200
	Header http.Header
	Body   any
}

// Request is the HTTP request of a call, nil outside of one. Its body has been read: it is the event's data.
func Request(ctx context.Context) *http.Request {
	if call := callOf(ctx); call != nil {
		return call.request
	}
	return nil
}

// adapt makes one kind of all handlers.
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
	panic("function: the type of the handler is none of Handler") // which the compiler has refused
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

// respond writes what a handler returned.
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
	_, _ = w.Write(body) // who has asked may be gone
	return nil
}

// bodyFor is the body of an answer, and what kind of text it is.
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

// respondEvent writes an event in binary mode, as one to be published.
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
	_, _ = w.Write(event.Data) // who has asked may be gone
	return nil
}
