package function

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	kindServer = 2
	kindClient = 3
)

// span is one that has ended.
type span struct {
	place
	name       string
	kind       int
	start, end time.Time
	attributes map[string]any // strings and ints
	failed     bool
	message    string
}

// beginServer is the place of a call below the one that its request names.
func beginServer(header http.Header) place {
	found, ok := placeOf(header)
	switch {
	case !ok:
		return newPlace()
	case traces == nil:
		return found
	}
	return found.child()
}

// endServer notes the span of a call.
func (c *call) endServer(status int, err error, expired bool) {
	if traces == nil || !c.place.sampled {
		return
	}
	r := c.request
	made := span{place: c.place, name: r.Method, kind: kindServer, start: c.start, end: time.Now(), attributes: map[string]any{
		"http.request.method": r.Method, "url.path": r.URL.Path, "url.scheme": "http", "http.response.status_code": status,
		"client.address": r.RemoteAddr, "server.address": r.Host, "user_agent.original": r.UserAgent(),
	}}
	if expired || status >= http.StatusInternalServerError {
		made.failed = true
		made.message = strconv.Itoa(status)
		if err != nil {
			made.message = err.Error()
		}
		made.attributes["error"], made.attributes["error.type"] = made.message, strconv.Itoa(status)
	}
	traces.add(made)
}

// client is the span of a request that a call makes.
type client struct {
	span
	recorded bool
}

// beginClient has a request carry on the trace of the call.
func beginClient(ctx context.Context, request *http.Request) *client {
	at := placeIn(ctx)
	recorded := traces != nil && at.sampled
	if recorded {
		at = at.child()
	}
	at.onto(request.Header)
	return &client{recorded: recorded, span: span{
		place: at, name: request.Method, kind: kindClient, start: time.Now(),
		attributes: map[string]any{
			"http.request.method": request.Method, "url.full": request.URL.Scheme + "://" + request.URL.Host + request.URL.Path,
		},
	}}
}

// end takes the answer's status, or else what kept it from having one.
func (c *client) end(status int, failure string) {
	if !c.recorded {
		return
	}
	c.span.end = time.Now()
	if status != 0 {
		c.attributes["http.response.status_code"] = status
		if status >= http.StatusBadRequest {
			failure = strconv.Itoa(status)
		}
	}
	if failure != "" {
		c.attributes["error.type"] = failure
		c.failed, c.message = true, failure
	}
	traces.add(c.span)
}
