package sink

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const structuredType = "application/cloudevents+json"

// bounds are what a reply may have, so that a request can carry it in its header to the next sink. They hold while
// it is read: extensions take many times the memory that they are written in.
var bounds = cloudevent.Bounds{Extensions: 64, Attributes: 16 << 10}

// isEvent reports whether a successful answer is an event.
func isEvent(resp *http.Response) bool {
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices || resp.StatusCode == http.StatusNoContent {
		return false
	}
	return isStructured(resp) || resp.Header.Get("Ce-Specversion") != ""
}

func isStructured(resp *http.Response) bool {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), structuredType)
}

// readReply reads the event that an answer is.
func readReply(resp *http.Response, body []byte, limit int64) (*cloudevent.Event, error) {
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("the reply has more than %d bytes", limit)
	}
	reply, err := parseReply(resp, body)
	if err == nil {
		err = reply.Validate()
	}
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

func parseReply(resp *http.Response, body []byte) (cloudevent.Event, error) {
	if !isStructured(resp) {
		return bounds.FromBinary(resp.Header, body)
	}
	return bounds.FromStructured(body)
}
