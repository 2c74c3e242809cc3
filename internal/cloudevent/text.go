package cloudevent

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// unquote reads a JSON string. The text may be a part of raw. Half of a character that is escaped becomes U+FFFD, and so do
// bytes that are no UTF-8 beside an escape; without one they stay as they are.
func unquote(raw []byte) (text []byte, ok bool) {
	if raw[0] != '"' {
		return nil, false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	text, _ = jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw) // it fails for what became U+FFFD
	return text, true
}

// appendString quotes a text. What is no UTF-8 becomes U+FFFD.
func appendString[T string | []byte](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // it fails for what became U+FFFD
	return dst
}
