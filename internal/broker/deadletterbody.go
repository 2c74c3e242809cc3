package broker

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
)

// Extensions that a dead letter has besides those of its event.
const (
	ExtensionDeadLetterReason       = "rousereason"
	ExtensionDeadLetterMessage      = "rousemessage"
	ExtensionDeadLetterAttempts     = "rouseattempts"
	ExtensionDeadLetterStatus       = "rousestatus"
	ExtensionDeadLetterExcerpt      = "rouseexcerpt"
	ExtensionDeadLetterSubscription = "rousesubscription"
	ExtensionDeadLetterTime         = "rousetime"
)

// extension is one member of a structured event, its value written as JSON.
type extension struct {
	name  string
	value []byte
}

func (d DeadLetter) extensions(now time.Time) []extension {
	extensions := []extension{
		{ExtensionDeadLetterReason, quote(string(d.Reason))},
		{ExtensionDeadLetterMessage, quote(d.Reason.Message())},
		{ExtensionDeadLetterAttempts, strconv.AppendInt(nil, int64(d.Attempts), 10)},
		{ExtensionDeadLetterSubscription, quote(d.Subscription.String())},
		{ExtensionDeadLetterTime, quote(formatTime(now))},
	}
	if d.Status != 0 {
		extensions = append(extensions, extension{ExtensionDeadLetterStatus, strconv.AppendInt(nil, int64(d.Status), 10)})
	}
	if d.BodyExcerpt != "" {
		extensions = append(extensions, extension{ExtensionDeadLetterExcerpt, quote(d.BodyExcerpt)})
	}
	return extensions
}

// spliceExtensions puts extensions at the start of a structured event and leaves
// every other byte as it is. A name that the event has already stays the event's:
// a JSON object cannot have it twice. It returns nil when the body is no
// structured event.
func spliceExtensions(body []byte, extensions []extension) []byte {
	members, ok := structuredMembers(body)
	if !ok {
		return nil
	}
	at := bytes.IndexByte(body, '{') + 1
	spliced := make([]byte, at, len(body)+2*maxExcerpt)
	copy(spliced, body)
	for _, e := range extensions {
		if _, has := members[e.name]; has {
			continue
		}
		spliced = append(append(append(append(spliced, '"'), e.name...), `":`...), e.value...)
		spliced = append(spliced, ',') // a structured event has at least its specversion
	}
	return append(spliced, body[at:]...)
}

// unspliced is the body of a dead letter as the event's publisher wrote it.
func unspliced(header nats.Header, body []byte) []byte {
	size, err := strconv.Atoi(header.Get(HeaderDeadLetterSpliced))
	at := bytes.IndexByte(body, '{') + 1
	if err != nil || at == 0 || size < 0 || size > len(body)-at {
		return body
	}
	return append(body[:at:at], body[at+size:]...)
}

func structuredMembers(body []byte) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members["specversion"] == nil {
		return nil, false
	}
	return members, true
}

// printable is a text without what no extension may have.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// quote writes a string of JSON.
func quote(text string) []byte {
	text = printable(text)
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string in memory can always be written
	return bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))
}
