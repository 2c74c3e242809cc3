package cloudevent

import (
	"bytes"
	"fmt"
)

var errSyntax = fmt.Errorf("%w: its JSON does not hold together", ErrNotStructured)

// eachMember calls member with the raw name and the raw value of each member of a JSON object, in their order. It finds
// where values end and does not look into them.
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
	if nameEnd < 0 {
		return nil, nil, -1
	}
	start := skipSpace(body, nameEnd)
	if at(body, start) != ':' {
		return nil, nil, -1
	}
	start = skipSpace(body, start+1)
	if end = valueEnd(body, start); end < 0 {
		return nil, nil, -1
	}
	return body[i:nameEnd], body[start:end], end
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

// stringEnd is where the string that begins at i ends, -1 when there is none.
func stringEnd(body []byte, i int) int {
	if i >= len(body) || body[i] != '"' {
		return -1
	}
	for i++; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// valueEnd is where the value that begins at i ends, -1 when it does not.
func valueEnd(body []byte, i int) int {
	if i >= len(body) {
		return -1
	}
	switch body[i] {
	case '"':
		return stringEnd(body, i)
	case '{', '[':
		return nestedEnd(body, i)
	case ',', '}', ']', ':':
		return -1
	}
	start := i
	for i < len(body) && body[i] != ',' && body[i] != '}' && body[i] != ']' && skipSpace(body, i) == i {
		i++
	}
	if !isLiteral(body[start:i]) {
		return -1
	}
	return i
}

// isLiteral leaves the order of a number's characters to whoever reads it.
func isLiteral(text []byte) bool {
	switch string(text) {
	case "true", "false", "null":
		return true
	}
	return len(text) > 0 && bytes.IndexByte([]byte("-0123456789"), text[0]) >= 0 && len(bytes.Trim(text, "-+.eE0123456789")) == 0
}

// nestedEnd counts brackets and skips strings.
func nestedEnd(body []byte, i int) int {
	depth := 0
	for ; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			end := stringEnd(body, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		}
	}
	return -1
}
