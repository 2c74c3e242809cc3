package process

import (
	"bufio"
	"io"
	"strings"
)

// maxLine is the longest line that is handed on whole. Longer ones come in pieces.
const maxLine = 16 << 10

type lineReader struct{ from *bufio.Reader }

func newLineReader(from io.Reader) lineReader { return lineReader{bufio.NewReaderSize(from, maxLine)} }

// next is the next line without its end; the last one may have none.
func (r lineReader) next() (string, error) {
	text, _, err := r.from.ReadLine()
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}
