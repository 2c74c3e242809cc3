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
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event is a CloudEvent. For a request without an event, the Event of an event handler has no ID, Source and Type.
type Event struct {
	ID, Source, Type, SpecVersion string
	// Subject, DataSchema and DataContentType may be empty.
	Subject, DataSchema, DataContentType string
	Time                                 time.Time
	// Extensions are all other attributes, in their text form.
	Extensions map[string]string
	// Data is the payload as received: the text of a JSON value, or bytes.
	Data []byte
}

// DataAs decodes the data into v: JSON as encoding/json does, and everything else into a *string, a *[]byte or an *any.
// Without data it changes nothing. Its error is the sender's fault: a handler that returns it responds with 400.
func (e Event) DataAs(v any) error {
	if len(e.Data) == 0 {
		return nil
	}
	if !isText(e.DataContentType) {
		err := json.Unmarshal(e.Data, v)
		if err == nil {
			return nil
		}
		if isJSON(e.DataContentType) || !e.assign(v) {
			return Errorf(400, "malformed JSON: %v", err)
		}
		return nil
	}
	if !e.assign(v) {
		return Errorf(400, "the data is no JSON, but %s", e.DataContentType)
	}
	return nil
}

func (e Event) assign(v any) bool {
	switch v := v.(type) {
	case *string:
		*v = string(e.Data)
	case *[]byte:
		*v = e.Data
	case *any:
		*v = string(e.Data)
		if !isText(e.DataContentType) {
			*v = e.Data
		}
	default:
		return false
	}
	return true
}

// mediaType returns a Content-Type without parameters, in lower case.
func mediaType(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind
}

func isJSON(contentType string) bool {
	kind := mediaType(contentType)
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

func isText(contentType string) bool { return strings.HasPrefix(mediaType(contentType), "text/") }

// set sets an attribute.
func (e *Event) set(name, value string) error {
	switch name {
	case "id":
		e.ID = value
	case "source":
		e.Source = value
	case "type":
		e.Type = value
	case "specversion":
		e.SpecVersion = value
	case "subject":
		e.Subject = value
	case "dataschema":
		e.DataSchema = value
	case "datacontenttype":
		e.DataContentType = value
	case "time":
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return Errorf(400, "malformed CloudEvent: attribute \"time\" is no time of RFC 3339")
		}
		e.Time = at
	default:
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[name] = value
	}
	return nil
}

// complete checks the required attributes, and adds optional ones.
func (e *Event) complete() error {
	for _, required := range []struct{ name, value string }{{"id", e.ID}, {"source", e.Source}, {"type", e.Type}} {
		if required.value == "" {
			return Errorf(400, "malformed CloudEvent: attribute %q is missing", required.name)
		}
	}
	switch e.SpecVersion {
	case "":
		e.SpecVersion = "1.0"
	case "1.0", "0.3":
	default:
		return Errorf(400, "malformed CloudEvent: specversion %.20q is unknown; it has to be 1.0", e.SpecVersion)
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	return nil
}

// attributes returns all attributes of the event, without its data.
func (e *Event) attributes() map[string]string {
	found := map[string]string{
		"id": e.ID, "source": e.Source, "type": e.Type, "specversion": e.SpecVersion,
		"subject": e.Subject, "dataschema": e.DataSchema, "datacontenttype": e.DataContentType,
	}
	if !e.Time.IsZero() {
		found["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	maps.Copy(found, e.Extensions)
	for name, value := range found {
		if value == "" {
			delete(found, name)
		}
	}
	return found
}

// validName returns an error for an invalid name of an attribute.
func validName(name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return fmt.Errorf("cannot emit a CloudEvent: attribute %q may have lower-case letters and digits only", name)
	}
	return nil
}

// Attributes are attributes of an event other than its type, source and data.
type Attributes map[string]string

const (
	extensionCause = "rousecause"
	extensionHops  = "rousehops"
	mostHops       = 1_000_000
)

// Emit publishes an event. Data may be nil, a string, []byte, or any value that encoding/json encodes. The context is
// that of the call, from which the event gets its cause and trace. Emit returns an error unless the publisher has
// stored the event.
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

// eventToEmit returns the structured form. A handler cannot shorten the chain that leads to an event.
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

// chainOf returns the extensions of events emitted while the event of a call is handled.
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

// publisher reuses connections, and follows no redirect: the token is only for its address.
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

// newID returns a random UUID.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// encoded encodes an attribute for a header.
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

// maxToken is the maximum length of a token that the publisher accepts.
const maxToken = 8192

// tokenFile is a file that is replaced from time to time. It is read again after a change; while it cannot be read, the
// last token is used, and the publisher rejects a request without a token with the reason.
type tokenFile struct {
	path string

	mu    sync.Mutex
	at    time.Time
	size  int64
	token string
}

var publisherToken = &tokenFile{path: settings.tokenFile}

func (f *tokenFile) read() string {
	if f.path == "" {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil || info.ModTime().Equal(f.at) && info.Size() == f.size {
		return f.token
	}
	file, err := os.Open(f.path)
	if err != nil {
		return f.token
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+2))
	if err != nil {
		return f.token
	}
	f.at, f.size, f.token = info.ModTime(), info.Size(), printable(strings.TrimSpace(string(text)))
	return f.token
}

// printable returns a text that a header can contain, or an empty string.
func printable(text string) string {
	if len(text) > maxToken || strings.IndexFunc(text, func(r rune) bool { return r < '!' || r > '~' }) >= 0 {
		return ""
	}
	return text
}
