package cloudevent

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote reads a JSON string that stringEnd has seen. Bytes that are no UTF-8 stay as they are. The text may be a part
// of raw.
func unquote(raw []byte) (text []byte, ok bool) {
	if raw[0] != '"' {
		return nil, false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	return unescape(inner), true
}

// unescape reads what stands between the quotes.
func unescape(inner []byte) []byte {
	text := make([]byte, 0, len(inner))
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return append(text, inner...)
		}
		text = append(text, inner[:i]...)
		c := inner[i+1]
		inner = inner[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			var r rune
			r, inner = unicodeEscape(inner)
			text = utf8.AppendRune(text, r)
			continue
		}
		text = append(text, c)
	}
}

// unicodeEscape reads the digits after \u, and those of a second escape when only both make a character. Half of one
// becomes U+FFFD.
func unicodeEscape(inner []byte) (r rune, rest []byte) {
	const digits = 4
	r, rest = hexRune(inner), inner[digits:]
	if !utf16.IsSurrogate(r) {
		return r, rest
	}
	if len(rest) < len(`\u0000`) || rest[0] != '\\' || rest[1] != 'u' {
		return utf8.RuneError, rest
	}
	if r = utf16.DecodeRune(r, hexRune(rest[2:])); r == utf8.RuneError {
		return r, rest
	}
	return r, rest[len(`\u0000`):]
}

// hexRune reads four digits.
func hexRune(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendString quotes a text. What is no UTF-8 becomes U+FFFD.
func appendString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))])); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscaped(dst, c)
		i++
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

func appendEscaped(dst []byte, c byte) []byte {
	switch {
	case c >= utf8.RuneSelf:
		return utf8.AppendRune(dst, utf8.RuneError)
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\n':
		return append(dst, '\\', 'n')
	case c == '\r':
		return append(dst, '\\', 'r')
	case c == '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
