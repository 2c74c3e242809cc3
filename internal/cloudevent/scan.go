package cloudevent

import "fmt"

var errSyntax = fmt.Errorf("%w: its JSON does not hold together", ErrNotStructured)

// eachMember calls member with the raw name and the raw value of each member of a JSON object, in their order. What it
// takes is valid JSON.
func eachMember(body []byte, member func(name, value []byte) error) error {
	i := skipSpace(body, 0)
	if at(body, i) != '{' {
		return ErrNotStructured
	}
	i = skipSpace(body, i+1)
	if at(body, i) == '}' {
		return atEnd(body, i+1)
	}
	for {
		name, value, end := oneMember(body, i)
		if end < 0 {
			return errSyntax
		}
		if err := member(name, value); err != nil {
			return err
		}
		i = skipSpace(body, end)
		switch at(body, i) {
		case ',':
			i = skipSpace(body, i+1)
		case '}':
			return atEnd(body, i+1)
		default:
			return errSyntax
		}
	}
}

// oneMember reads the member that begins at i. Its end is -1 when it has none.
func oneMember(body []byte, i int) (name, value []byte, end int) {
	nameEnd := stringEnd(body, i)
	start := valueStart(body, nameEnd)
	if start < 0 {
		return nil, nil, -1
	}
	if end, _ = valueEnd(body, start); end < 0 {
		return nil, nil, -1
	}
	return body[i:nameEnd], body[start:end], end
}

// valueStart is where the value behind a member's name begins, -1 when there is none.
func valueStart(body []byte, nameEnd int) int {
	if nameEnd < 0 {
		return -1
	}
	colon := skipSpace(body, nameEnd)
	if at(body, colon) != ':' {
		return -1
	}
	return skipSpace(body, colon+1)
}

// ValidJSON reports whether data are one JSON value.
func ValidJSON(data []byte) bool {
	end, _ := valueEnd(data, skipSpace(data, 0))
	return end >= 0 && skipSpace(data, end) == len(data)
}

// at is 0 beyond the end.
func at(body []byte, i int) byte {
	if i >= len(body) {
		return 0
	}
	return body[i]
}

func atEnd(body []byte, i int) error {
	if skipSpace(body, i) != len(body) {
		return errSyntax
	}
	return nil
}

func skipSpace(body []byte, i int) int {
	for i < len(body) && (body[i] == ' ' || body[i] == '\n' || body[i] == '\t' || body[i] == '\r') {
		i++
	}
	return i
}

// maxDepth of JSON that is embedded, and that the walk follows by itself. Readers give up at different depths.
const maxDepth = 512

// walk goes through one JSON value without looking back: a bit for each level that is open tells objects from arrays.
type walk struct {
	body    []byte
	i       int
	depth   int
	objects [maxDepth / 64]uint64
}

// valueEnd is where the JSON value that begins at i ends, -1 when it does not. A deep one is nested more than maxDepth.
func valueEnd(body []byte, i int) (end int, deep bool) {
	switch c := at(body, i); {
	case c == '"':
		return stringEnd(body, i), false
	case c != '{' && c != '[':
		return literalEnd(body, i), false
	}
	w := walk{body: body, i: i}
	for w.value() {
		if w.depth == 0 {
			return w.i, false
		}
	}
	if w.depth == maxDepth {
		return deepEnd(body, i), true
	}
	return -1, false
}

// value reads one value, or the brackets that open one, and what follows up to the next value.
func (w *walk) value() bool {
	switch at(w.body, w.i) {
	case '"':
		w.i = stringEnd(w.body, w.i)
	case '{':
		return w.open(1, '}')
	case '[':
		return w.open(0, ']')
	default:
		w.i = literalEnd(w.body, w.i)
	}
	return w.i >= 0 && w.next()
}

func (w *walk) open(object uint64, closing byte) bool {
	if w.depth == maxDepth {
		return false
	}
	word, bit := w.depth/64, w.depth%64
	w.objects[word] = w.objects[word]&^(1<<bit) | object<<bit
	w.depth++
	w.i = skipSpace(w.body, w.i+1)
	if at(w.body, w.i) == closing {
		w.depth--
		w.i++
		return w.next()
	}
	return object == 0 || w.name()
}

// name reads up to the value of a member.
func (w *walk) name() bool {
	w.i = valueStart(w.body, stringEnd(w.body, w.i))
	return w.i >= 0
}

// next reads what follows a value: brackets that close, or a comma.
func (w *walk) next() bool {
	for w.depth > 0 {
		w.i = skipSpace(w.body, w.i)
		object := w.objects[(w.depth-1)/64]>>((w.depth-1)%64)&1 == 1
		switch c := at(w.body, w.i); {
		case c == ',':
			w.i = skipSpace(w.body, w.i+1)
			return !object || w.name()
		case c == '}' && object, c == ']' && !object:
			w.depth--
			w.i++
		default:
			return false
		}
	}
	return true
}
