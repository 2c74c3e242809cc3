package sink

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	structuredType = "application/cloudevents+json"

	maxExtensions = 64       // of a reply
	maxAttributes = 16 << 10 // bytes of them, and of its other attributes
)

// isEvent tells whether a successful answer is an event.
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
		err = errors.Join(reply.Validate(), attributesFit(&reply))
	}
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

// attributesFit bounds what a request has to carry in its header to whoever gets the event.
func attributesFit(reply *cloudevent.Event) error {
	if len(reply.Extensions) > maxExtensions {
		return fmt.Errorf("the reply has more than %d extensions", maxExtensions)
	}
	size := len(reply.ID) + len(reply.Source) + len(reply.Type) + len(reply.Subject) + len(reply.DataSchema) + len(reply.DataContentType)
	for _, extension := range reply.Extensions {
		size += len(extension.Name) + len(extension.Value)
	}
	if size > maxAttributes {
		return fmt.Errorf("the attributes of the reply have more than %d bytes", maxAttributes)
	}
	return nil
}

func parseReply(resp *http.Response, body []byte) (cloudevent.Event, error) {
	if !isStructured(resp) {
		return cloudevent.FromBinary(resp.Header, body)
	}
	return cloudevent.FromStructured(body)
}
