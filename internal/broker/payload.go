package broker

import (
	"encoding/json"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
)

// maxDepth of JSON that is embedded. Readers give up at different depths; deeper
// data is stored as base64.
const maxDepth = 500

// payload is an event's data and how it is written.
type payload struct {
	bytes  []byte
	base64 bool
}

// payloadOf decides how data is stored so that every byte of it comes back: JSON
// is embedded as it is, text becomes a JSON string, the rest becomes base64. An
// event that came in base64 stays so.
func payloadOf(attributes *event.EventContextV1, e event.Event) payload {
	if len(e.DataEncoded) == 0 {
		return payload{}
	}
	asIs := false
	if !e.DataBase64 && utf8.Valid(e.DataEncoded) {
		switch mediaType := writtenMediaType(attributes); {
		case mediaType.json && mediaType.readAlike:
			asIs = embeddable(e.DataEncoded)
		case !mediaType.json:
			asIs = true
		}
	}
	return payload{bytes: e.DataEncoded, base64: !asIs}
}

type mediaType struct {
	json      bool // the SDK's writer takes the data for JSON
	readAlike bool // and its reader agrees
}

// writtenMediaType says what the SDK makes of a content type. Its writer ignores
// case and its reader does not, so "Application/JSON" would be written as JSON
// and not be read as such.
func writtenMediaType(attributes *event.EventContextV1) mediaType {
	if attributes.DataContentType == nil {
		return mediaType{json: true, readAlike: true}
	}
	name, _, _ := mime.ParseMediaType(*attributes.DataContentType)
	read, _ := attributes.GetDataMediaType()
	return mediaType{json: isJSON(name), readAlike: isJSON(read)}
}

func isJSON(mediaType string) bool {
	switch mediaType {
	case "", event.ApplicationJSON, event.TextJSON, event.ApplicationCloudEventsJSON, event.ApplicationCloudEventsBatchJSON:
		return true
	default:
		return false
	}
}

// embeddable tells whether data can stand in a JSON event and come back byte for
// byte. White space around a value would be lost.
func embeddable(data []byte) bool {
	const whiteSpace = " \t\r\n"
	if strings.IndexByte(whiteSpace, data[0]) >= 0 || strings.IndexByte(whiteSpace, data[len(data)-1]) >= 0 {
		return false
	}
	return json.Valid(data) && depth(data) <= maxDepth
}

// depth of nesting in valid JSON.
func depth(data []byte) int {
	deepest, current := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			current++
			deepest = max(deepest, current)
		case c == '}' || c == ']':
			current--
		}
	}
	return deepest
}
