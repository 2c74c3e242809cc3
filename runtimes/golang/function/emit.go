package function

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Attributes of an event beside its type, its source and its data.
type Attributes map[string]string

const (
	extensionCause = "rousecause"
	extensionHops  = "rousehops"
	mostHops       = 1_000_000
)

// Emit publishes an event. Data may be nil, a string, []byte, or anything that encoding/json writes. The context is that of
// the call: by it the event names what caused it and carries on its trace. It fails unless the publisher has stored the event.
func Emit(ctx context.Context, eventType, source string, data any, attributes ...Attributes) error {
	if settings.publisher == "" {
		return errors.New("cannot emit a CloudEvent: PUBLISHER_PROXY_ADDRESS is not set")
	}
	event, err := eventToEmit(eventType, source, data, chainOf(ctx), attributes)
	if err != nil {
		return err
	}
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("cannot emit a CloudEvent: %w", err)
	}
	return publish(ctx, body)
}

// eventToEmit is the structured form. A handler cannot make the chain shorter that leads to an event.
func eventToEmit(eventType, source string, data any, chain Attributes, attributes []Attributes) (map[string]any, error) {
	for name, value := range map[string]string{"type": eventType, "source": source} {
		if value == "" {
			return nil, fmt.Errorf("cannot emit a CloudEvent: %s must not be empty", name)
		}
	}
	event := map[string]any{"specversion": "1.0", "id": newID(), "time": time.Now().UTC().Format(time.RFC3339Nano)}
	switch data := data.(type) {
	case nil:
	case []byte:
		event["datacontenttype"], event["data_base64"] = "application/octet-stream", base64.StdEncoding.EncodeToString(data)
	case string:
		event["datacontenttype"], event["data"] = "text/plain", data
	default:
		event["datacontenttype"], event["data"] = "application/json", data
	}
	given := Attributes{}
	for _, each := range attributes {
		maps.Copy(given, each)
	}
	for _, each := range []Attributes{chain, given} {
		for name, value := range each {
			if err := validName(name); err != nil {
				return nil, err
			}
			event[name] = value
		}
	}
	if hops := chain[extensionHops]; hops != "" {
		event[extensionHops] = hops
	}
	event["type"], event["source"] = eventType, source
	return event, nil
}

// chainOf are the extensions of what is emitted while the event of a call is handled.
func chainOf(ctx context.Context) Attributes {
	call := callOf(ctx)
	if call == nil || call.event == nil {
		return nil
	}
	before, err := strconv.Atoi(call.event.Extensions[extensionHops])
	if err != nil {
		before = 0
	}
	return Attributes{extensionCause: call.event.ID, extensionHops: strconv.Itoa(min(max(before, 0), mostHops) + 1)}
}

const (
	publishTimeout = 30 * time.Second
	maxAnswer      = 64 << 10
)

// publisher keeps connections, and follows no redirect: the token goes to its address and nowhere else.
var publisher = &http.Client{
	Timeout:       publishTimeout,
	Transport:     &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func publish(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, settings.publisher, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot reach the publisher: %w", err)
	}
	request.Header.Set("Content-Type", structured)
	if token := publisherToken.read(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	span := beginClient(ctx, request)
	response, err := publisher.Do(request)
	if err != nil {
		span.end(0, "error")
		return fmt.Errorf("cannot reach the publisher: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	span.end(response.StatusCode, "")
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("cannot read what the publisher answers: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("publisher answered %d: %s", response.StatusCode, strings.TrimSpace(string(answer)))
	}
	return nil
}

// newID is a random UUID.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// encoded writes an attribute as a header takes it.
func encoded(value string) string {
	var text strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&text, "%%%02X", c)
		} else {
			text.WriteByte(c)
		}
	}
	return text.String()
}
