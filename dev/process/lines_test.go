package process

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutputIsSplitIntoLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"none of nothing":                  {text: ""},
		"whole ones":                       {text: "a\nb\n", want: []string{"a", "b"}},
		"empty ones":                       {text: "\n\na\n", want: []string{"", "", "a"}},
		"the last one without an end":      {text: "a\nb", want: []string{"a", "b"}},
		"with the ends of other systems":   {text: "a\r\nb\r\n", want: []string{"a", "b"}},
		"a long one in pieces":             {text: long + "yz\nb\n", want: []string{long, "yz", "b"}},
		"bytes that are no text, replaced": {text: "a\xffb\n", want: []string{"a\uFFFDb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := newLineReader(strings.NewReader(tc.text))
			var got []string
			for {
				line, err := reader.next()
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
				got = append(got, line)
			}
			require.Equal(t, tc.want, got)
		})
	}
}
