package cloudevent

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotStructured means that bytes are no JSON event at all, so that they may be the data of one in binary mode.
var ErrNotStructured = errors.New("the body is not a structured CloudEvent")

// FromStructured reads a JSON event. It does not check that the attributes make sense: Validate does. The event's data
// may be a part of body.
func FromStructured(body []byte) (Event, error) { return Bounds{}.FromStructured(body) }

// FromStructured is FromStructured for an event within the bounds.
func (b Bounds) FromStructured(body []byte) (Event, error) {
	var e Event
	r := reader{event: &e, bounds: b}
	if err := eachMember(body, r.member); err != nil {
		return Event{}, err
	}
	if r.version == "" {
		return Event{}, ErrNotStructured
	}
	if err := r.finish(); err != nil {
		return Event{}, err
	}
	if err := b.Check(&e); err != nil {
		return Event{}, err
	}
	return e, nil
}

// SplitBatch finds the events of a JSON batch. It does not look into them, but they are valid JSON. With more than limit
// it returns ErrLargeBatch.
func SplitBatch(body []byte, limit int) ([][]byte, error) {
	s := scan(body)
	defer s.release()
	if !s.open(jsontext.KindBeginArray) {
		return nil, errNotBatch
	}
	var events [][]byte
	for s.PeekKind() != jsontext.KindEndArray {
		event, err := s.value()
		if err != nil {
			return nil, errNotBatch
		}
		if len(events) == limit {
			return nil, ErrLargeBatch
		}
		events = append(events, event)
	}
	if !s.end() {
		return nil, errNotBatch
	}
	return events, nil
}

var (
	errNotBatch = errors.New("the body is not a batch of CloudEvents: a JSON array")
	// ErrLargeBatch means that a batch has more events than it may have.
	ErrLargeBatch = errors.New("the batch has too many events")
)

// The versions of the specification, and the attribute that names one.
const (
	specVersion = "specversion"

	version1   = "1.0"
	version0_3 = "0.3"
)

// reader gathers the members of a JSON event.
type reader struct {
	event   *Event
	bounds  Bounds
	version string

	// As written. What the last two mean depends on the version.
	data, base64, encoding, schemaURL []byte
}

func (r *reader) member(rawName, value []byte) error {
	name, _ := unquote(rawName)
	switch string(name) {
	case "data":
		r.data = value
	case "data_base64":
		r.base64 = value
	case "datacontentencoding":
		r.encoding = value
	case "schemaurl":
		r.schemaURL = value
	case specVersion:
		return r.setVersion(value)
	default:
		if place := r.event.place(string(name)); place != nil {
			return setText(place, string(name), value)
		}
		return r.extension(strings.ToLower(string(name)), value)
	}
	return nil
}

func (r *reader) setVersion(value []byte) error {
	text, _ := unquote(value)
	switch string(text) {
	case version1:
		r.version = version1
	case version0_3:
		r.version = version0_3
	default:
		return fmt.Errorf("unknown specversion %.20s", value)
	}
	return nil
}

// setText leaves out what is null.
func setText(place *string, name string, value []byte) error {
	if value[0] == 'n' {
		return nil
	}
	text, ok := unquote(value)
	if !ok {
		return fmt.Errorf("%s: MUST be a string", name)
	}
	*place = string(text)
	return nil
}

func (r *reader) extension(name string, value []byte) error {
	if !isName(name) {
		return fmt.Errorf("%.40q: is not a name for an extension: letters and digits only", name)
	}
	if r.event.place(name) != nil {
		return fmt.Errorf("%s: is an attribute's name, in lower case only", name)
	}
	x := Extension{Name: name}
	switch value[0] {
	case 'n':
		return nil
	case '"':
		text, _ := unquote(value)
		x.Value = string(text)
	case 't', 'f':
		x.Value, x.Kind = string(value), Bool
	case '{', '[':
		return fmt.Errorf("%s: MUST be a string, a number or a truth value", name)
	default:
		x.Value = string(value)
		if _, err := strconv.ParseInt(x.Value, 10, 32); err == nil {
			x.Kind = Integer
		}
	}
	r.event.Extensions = append(r.event.Extensions, x)
	return r.bounds.extensions(r.event)
}

// finish reads what it takes to know all members for.
func (r *reader) finish() error {
	if err := r.finishVersion(); err != nil {
		return err
	}
	r.event.sortExtensions()
	if r.base64 != nil {
		return r.decode(r.base64)
	}
	if r.data == nil {
		return nil
	}
	r.event.Data = r.data
	if isJSON(r.event.DataContentType) {
		return nil
	}
	if text, ok := unquote(r.data); ok {
		r.event.Data = text
	} else if r.data[0] == 'n' {
		r.event.Data = nil
	}
	return nil
}

// finishVersion gives two names the meaning that they have in version 0.3. In 1.0 they are names as any other.
func (r *reader) finishVersion() error {
	if r.version == version1 {
		return errors.Join(r.extensionOf("schemaurl", r.schemaURL), r.extensionOf("datacontentencoding", r.encoding))
	}
	if r.schemaURL != nil {
		if err := setText(&r.event.DataSchema, "schemaurl", r.schemaURL); err != nil {
			return err
		}
	}
	if r.encoding == nil || r.encoding[0] == 'n' {
		return nil
	}
	text, _ := unquote(r.encoding)
	if err := checkEncoding(string(text)); err != nil || len(text) == 0 {
		return err
	}
	if r.base64 == nil {
		r.base64 = r.data
	}
	return nil
}

func (r *reader) extensionOf(name string, value []byte) error {
	if value == nil {
		return nil
	}
	return r.extension(name, value)
}

// checkEncoding judges the datacontentencoding of version 0.3.
func checkEncoding(text string) error {
	if text != "" && !strings.EqualFold(text, "base64") {
		return errors.New("datacontentencoding: MUST be base64")
	}
	return nil
}

func (r *reader) decode(encoded []byte) error {
	if encoded[0] == 'n' {
		return nil
	}
	text, ok := unquote(encoded)
	if !ok {
		return errors.New("data_base64: MUST be a string")
	}
	return r.event.setBase64(text)
}

func (e *Event) setBase64(text []byte) error {
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return fmt.Errorf("data: MUST be base64: %w", err)
	}
	e.Data, e.Base64 = data[:n], true
	return nil
}

// isJSON reports whether data of a content type stand in a JSON event as they are. Without one they are JSON.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/json", "text/json", "application/cloudevents+json", "application/cloudevents-batch+json", "":
		return true
	default:
		return false
	}
}

var errSyntax = fmt.Errorf("%w: its JSON does not hold together", ErrNotStructured)

// scanner takes JSON apart. What it returns are parts of the body.
type scanner struct {
	jsontext.Decoder

	body   []byte
	buffer bytes.Buffer
}

var scanners = sync.Pool{New: func() any { return &scanner{} }}

// scan borrows a scanner. It has to be released.
func scan(body []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.reset(body)
	return s
}

func (s *scanner) release() {
	s.reset(nil) // the pool keeps no body
	scanners.Put(s)
}

// reset has the scanner take what encoding/json takes, which is how others have stored events: names twice, and bytes that
// are no UTF-8.
func (s *scanner) reset(body []byte) {
	s.body, s.buffer = body, *bytes.NewBuffer(body)
	s.Reset(&s.buffer, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// open reads the bracket that begins an object or array.
func (s *scanner) open(kind jsontext.Kind) bool {
	if s.PeekKind() != kind {
		return false
	}
	_, err := s.ReadToken()
	return err == nil
}

// value reads the value, or the name, that comes next.
func (s *scanner) value() ([]byte, error) {
	value, err := s.ReadValue()
	if err != nil {
		return nil, err
	}
	end := s.InputOffset()
	return s.body[end-int64(len(value)) : end], nil
}

// end reads the bracket that ends all, and reports whether nothing follows.
func (s *scanner) end() bool {
	if _, err := s.ReadToken(); err != nil {
		return false
	}
	_, err := s.ReadToken()
	return errors.Is(err, io.EOF)
}

// eachMember calls member with the raw name and the raw value of each member of a JSON object, in their order. What it
// takes is valid JSON.
func eachMember(body []byte, member func(name, value []byte) error) error {
	s := scan(body)
	defer s.release()
	if !s.open(jsontext.KindBeginObject) {
		return ErrNotStructured
	}
	for s.PeekKind() != jsontext.KindEndObject {
		name, err := s.value()
		if err != nil {
			return errSyntax
		}
		value, err := s.value()
		if err != nil {
			return errSyntax
		}
		if err := member(name, value); err != nil {
			return err
		}
	}
	if !s.end() {
		return errSyntax
	}
	return nil
}

// ValidJSON reports whether data are one JSON value.
func ValidJSON(data []byte) bool {
	s := scan(data)
	defer s.release()
	if _, err := s.ReadValue(); err != nil {
		return false
	}
	_, err := s.ReadToken()
	return errors.Is(err, io.EOF)
}

// maxDepth of JSON that is embedded. Readers give up at different depths.
const maxDepth = 512

// isDeep reports whether what is valid JSON is nested more than maxDepth. Little has so many brackets at all.
func isDeep(value []byte) bool {
	if bytes.Count(value, []byte("{"))+bytes.Count(value, []byte("[")) <= maxDepth {
		return false
	}
	depth, text := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			text = !text
		case c == '\\': // only in a text
			i++
		case text:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

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
	case isJSONToAll(e.DataContentType) && e.embeddable():
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

// embeddable reports whether the data can stand in a JSON event and come back byte for byte. White space around a value would
// be lost.
func (e *Event) embeddable() bool {
	return !isSpace(e.Data[0]) && !isSpace(e.Data[len(e.Data)-1]) && e.hasJSON() && !isDeep(e.Data)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
