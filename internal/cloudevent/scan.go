package cloudevent

import "errors"

var errSyntax = errors.New("the JSON is not complete")

// eachMember calls member with the raw name and the raw value of each member of a JSON object, in their order. It finds
// where values end and does not look into them.
func eachMember(body []byte, member func(name, value []byte) error) error {
	i := skipSpace(body, 0)
	if i == len(body) || body[i] != '{' {
		return ErrNotStructured
	}
	i = skipSpace(body, i+1)
	if i < len(body) && body[i] == '}' {
		return atEnd(body, i+1)
	}
	for {
		nameEnd := stringEnd(body, i)
		if nameEnd < 0 {
			return ErrNotStructured
		}
		name := body[i:nameEnd]
		i = skipSpace(body, nameEnd)
		if i == len(body) || body[i] != ':' {
			return ErrNotStructured
		}
		i = skipSpace(body, i+1)
		end := valueEnd(body, i)
		if end < 0 {
			return errors.Join(ErrNotStructured, errSyntax)
		}
		if err := member(name, body[i:end]); err != nil {
			return err
		}
		i = skipSpace(body, end)
		if i == len(body) {
			return errors.Join(ErrNotStructured, errSyntax)
		}
		switch body[i] {
		case ',':
			i = skipSpace(body, i+1)
		case '}':
			return atEnd(body, i+1)
		default:
			return errors.Join(ErrNotStructured, errSyntax)
		}
	}
}

func atEnd(body []byte, i int) error {
	if skipSpace(body, i) != len(body) {
		return errors.Join(ErrNotStructured, errSyntax)
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

func isLiteral(text []byte) bool {
	switch string(text) {
	case "true", "false", "null":
		return true
	}
	for i, c := range text {
		digit := c >= '0' && c <= '9'
		if !digit && !(c == '-' && i == 0) && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-' {
			return false
		}
	}
	return len(text) > 0 && text[0] != '+' && text[0] != '.' && text[0] != 'e' && text[0] != 'E'
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
