package journal

import "strings"

// MaxText is how many bytes of an id, a source or a type are kept.
const MaxText = 512

func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "")
}
