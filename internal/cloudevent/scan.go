package cloudevent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

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
