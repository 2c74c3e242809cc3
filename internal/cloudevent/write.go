package cloudevent

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// AppendStructured writes the event as JSON.
func (e *Event) AppendStructured(dst []byte) []byte {
	dst = append(dst, `{"specversion":"1.0"`...)
	dst = appendText(dst, "id", e.ID)
	dst = appendText(dst, "source", e.Source)
	dst = appendText(dst, "type", e.Type)
	dst = appendText(dst, "subject", e.Subject)
	dst = appendText(dst, "time", e.Time)
	dst = appendText(dst, "datacontenttype", e.DataContentType)
	dst = appendText(dst, "dataschema", e.DataSchema)
	for i := range e.Extensions {
		x := &e.Extensions[i]
		dst = appendName(dst, x.Name)
		if x.Kind == String {
			dst = appendString(dst, x.Value)
		} else {
			dst = append(dst, x.Value...)
		}
	}
	return append(e.appendData(dst), '}')
}

func appendText(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(appendName(dst, name), value)
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendData writes JSON as it is, text as a string, and the rest as base64.
func (e *Event) appendData(dst []byte) []byte {
	switch {
	case len(e.Data) == 0:
		return dst
	case e.Base64 || !utf8.Valid(e.Data):
	case !isJSON(e.DataContentType):
		return appendString(appendName(dst, "data"), e.Data)
	case isJSONToAll(e.DataContentType) && embeddable(e.Data):
		return append(appendName(dst, "data"), e.Data...)
	}
	dst = append(dst, `,"data_base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, e.Data)
	return append(dst, '"')
}

// isJSONToAll is true where readers that mind the case of a content type agree with isJSON, as the SDK's does.
func isJSONToAll(contentType string) bool {
	mediaType, _, parameters := strings.Cut(contentType, ";")
	if parameters {
		mediaType = strings.TrimSpace(mediaType)
	}
	return mediaType == strings.ToLower(strings.TrimSpace(mediaType))
}

// embeddable reports whether data can stand in a JSON event and come back byte for byte. White space around a value would
// be lost.
func embeddable(data []byte) bool {
	return !isSpace(data[0]) && !isSpace(data[len(data)-1]) && ValidJSON(data) && !isDeep(data)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
