package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHeaderHasNoMoreLinesThanItMayAndOneLength(t *testing.T) {
	t.Parallel()
	const first = "POST / HTTP/1.1\r\n"
	for name, tc := range map[string]struct {
		sent string
		want error
	}{
		"as many as may be":           {first + strings.Repeat("a:\r\n", maxHeaderLines-1) + "\r\n", nil},
		"one more":                    {first + strings.Repeat("a:\r\n", maxHeaderLines) + "\r\n", errManyHeaders},
		"one more without an end":     {first + strings.Repeat("a:\n", maxHeaderLines), errManyHeaders},
		"behind empty lines":          {"\r\n\n" + first + strings.Repeat("a:\n", maxHeaderLines), errManyHeaders},
		"behind a line of one space":  {first + "a: b\r\n \n" + strings.Repeat("a:\n", maxHeaderLines-2), errManyHeaders},
		"behind a line of one letter": {first + "a\n" + strings.Repeat("a:\n", maxHeaderLines-1), errManyHeaders},
		"a body of many":              {first + "\r\n" + strings.Repeat("\n", 1000), nil},
		"a length":                    {first + "Content-Length: 1\r\n\r\nTransfer-Encoding: chunked\r\n", nil},
		"a length and chunks":         {first + "a: b\r\ncontent-LENGTH:1\r\nTransfer-Encoding: chunked\r\n\r\n", errTwoLengths},
		"chunks and a length":         {first + "Transfer-encoding:chunked\nContent-Length:\n\n", errTwoLengths},
		"chunks and names like it":    {first + "Transfer-Encoding: chunked\r\nContent-Lengths: 1\r\nX-Content-Length: 1\r\n\r\n", nil},
		"a body behind bare ends":     {"POST / HTTP/1.1\n\n" + strings.Repeat("\n", 1000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range []int{1, 2, 3, 7, 4096, len(tc.sent)} {
				h := header{}
				h.begin()
				var got error
				for rest := tc.sent; got == nil && rest != ""; rest = rest[min(piece, len(rest)):] {
					got = h.read([]byte(rest[:min(piece, len(rest))]))
				}
				require.Equal(t, tc.want, got, "in pieces of %d", piece)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: h\r\n\r\nbody\n", 3)
	f.Fuzz(func(t *testing.T, sent string, piece int) {
		whole, parts := header{}, header{}
		whole.begin()
		parts.begin()
		want, got := whole.read([]byte(sent)), error(nil)
		for rest := sent; got == nil && rest != ""; {
			n := min(max(piece, 1), len(rest))
			got, rest = parts.read([]byte(rest[:n])), rest[n:]
		}
		require.Equal(t, want, got)
	})
}
