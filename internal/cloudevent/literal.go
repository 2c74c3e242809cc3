package cloudevent

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
)

// stringEnd is where the JSON string that begins at i ends, -1 when there is none. Bytes that are no UTF-8 are left to
// the reader, as encoding/json does.
func stringEnd(body []byte, i int) int {
	if at(body, i) != '"' {
		return -1
	}
	for i = plainEnd(body, i+1); i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = escapeEnd(body, i+1); i < 0 {
				return -1
			}
			i = plainEnd(body, i+1) - 1
		case c < ' ':
			return -1
		}
	}
	return -1
}

// plainEnd is where the run of bytes that mean themselves ends, or up to seven bytes before that. It looks at eight at a
// time, because strings are most of what events carry.
func plainEnd(body []byte, i int) int {
	for ; i+8 <= len(body); i += 8 {
		eight := binary.LittleEndian.Uint64(body[i:])
		if (below(eight, ' ') | below(eight^'"'*ones, 1) | below(eight^'\\'*ones, 1)) != 0 {
			break
		}
	}
	return i
}

const ones = 0x0101010101010101

// below is not 0 if one of eight bytes is less than limit, which is 128 at most.
func below(eight, limit uint64) uint64 { return (eight - limit*ones) &^ eight & (128 * ones) }

// escapeEnd is the last place of what follows a backslash, -1 when that is no escape.
func escapeEnd(body []byte, i int) int {
	const hexDigits = 4
	switch at(body, i) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		for range hexDigits {
			if i++; !isHex(at(body, i)) {
				return -1
			}
		}
		return i
	default:
		return -1
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// literalEnd is where a number, true, false or null that begins at i ends, -1 when there is none.
func literalEnd(body []byte, i int) int {
	word := ""
	switch at(body, i) {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	default:
		return numberEnd(body, i)
	}
	if !bytes.HasPrefix(body[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

func numberEnd(body []byte, i int) int {
	if at(body, i) == '-' {
		i++
	}
	whole := digitsEnd(body, i)
	if whole == i || (body[i] == '0' && whole > i+1) {
		return -1
	}
	i = whole
	if at(body, i) == '.' {
		fraction := digitsEnd(body, i+1)
		if fraction == i+1 {
			return -1
		}
		i = fraction
	}
	if c := at(body, i); c != 'e' && c != 'E' {
		return i
	}
	i++
	if c := at(body, i); c == '+' || c == '-' {
		i++
	}
	exponent := digitsEnd(body, i)
	if exponent == i {
		return -1
	}
	return exponent
}

func digitsEnd(body []byte, i int) int {
	for i < len(body) && body[i] >= '0' && body[i] <= '9' {
		i++
	}
	return i
}

// deepEnd finds the end by counting brackets, and leaves it to encoding/json to say whether what is between them is one
// value.
func deepEnd(body []byte, start int) int {
	depth := 0
	for i := start; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth > 0 {
				continue
			}
			if !json.Valid(body[start : i+1]) {
				return -1
			}
			return i + 1
		case '"':
			if i = stringEnd(body, i) - 1; i < 0 {
				return -1
			}
		}
	}
	return -1
}
