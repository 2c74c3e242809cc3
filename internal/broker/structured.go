package broker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
)

// errNotStructured means that a body is no JSON event at all, so that it may be
// the data of an event in binary mode.
var errNotStructured = errors.New("the body is not a structured CloudEvent")

// decodeStructured reads a JSON event. The SDK's own reader is not used: it
// panics on some foreign bodies and cuts data short after a number that no
// float64 holds.
func decodeStructured(body []byte) (event.Event, error) {
	var members map[string]json.RawMessage
	if len(body) == 0 || json.Unmarshal(body, &members) != nil || members[attributeSpecVersion] == nil {
		return event.Event{}, errNotStructured
	}
	data, encoded := takeData(members)
	attributes := &event.EventContextV1{}
	for name, raw := range members {
		value, err := attributeValue(raw)
		if err == nil && value != nil {
			err = setAttribute(attributes, name, value)
		}
		if err != nil {
			return event.Event{}, err
		}
	}
	restoreType(attributes)
	decoded := event.Event{Context: attributes}
	if encoded {
		return decoded, setBase64(&decoded, data)
	}
	if data != nil {
		setData(&decoded, data)
	}
	return decoded, nil
}

// takeData leaves only attributes behind. Version 0.3 says with an attribute of
// its own that data is base64.
func takeData(members map[string]json.RawMessage) (data json.RawMessage, encoded bool) {
	encoding, _ := unquote(members[event.DataContentEncodingKey])
	data, encoded = members["data_base64"]
	if !encoded {
		data = members["data"]
		encoded = data != nil && encoding == event.Base64
	}
	for _, name := range []string{"data", "data_base64", event.DataContentEncodingKey} {
		delete(members, name)
	}
	return data, encoded
}

// attributeValue is what CloudEvents knows: text, a truth value, an integer, or
// nothing.
func attributeValue(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case '"':
		text, ok := unquote(raw)
		if !ok {
			return nil, errors.New("an attribute is not a string")
		}
		return text, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case 'n':
		return nil, nil
	case '{', '[':
		return nil, errors.New("an attribute is neither text nor a number nor a truth value")
	default:
		if number, err := strconv.ParseInt(string(raw), 10, 32); err == nil {
			return int32(number), nil
		}
		return string(raw), nil
	}
}

func setBase64(e *event.Event, raw json.RawMessage) error {
	text, ok := unquote(raw)
	if !ok {
		return errors.New("data in base64 is not a string")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("data in base64: %w", err)
	}
	e.DataEncoded, e.DataBase64 = data, true
	return nil
}

// setData takes JSON as it is and unquotes text. A producer may have embedded
// JSON under a content type like application/vnd.shop+json: that is taken too.
func setData(e *event.Event, raw json.RawMessage) {
	if !isJSON(strings.ToLower(e.DataMediaType())) {
		if bytes.Equal(raw, []byte("null")) {
			return
		}
		if text, ok := unquote(raw); ok {
			e.DataEncoded = []byte(text)
			return
		}
	}
	e.DataEncoded = raw
}

// unquote reads a JSON string, which the whole body's check found to be valid.
func unquote(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}
