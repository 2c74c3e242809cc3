package cloudevent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEventWithinTheBoundsIsRead(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Extensions: 3, Attributes: 40}
	const many, large = "the event has more than 3 extensions", "the event has more than 40 bytes of attributes"
	for name, tc := range map[string]struct {
		attributes map[string]string // beside specversion
		want       string
	}{
		"as many extensions as may be": {map[string]string{"id": "1", "a": "", "b": "", "c": ""}, ""},
		"one extension more":           {map[string]string{"id": "1", "a": "", "b": "", "c": "", "d": ""}, many},
		"names of version 0.3":         {map[string]string{"id": "1", "a": "", "b": "", "schemaurl": "", "datacontentencoding": ""}, many},
		"as many bytes as may be":      {map[string]string{"id": strings.Repeat("x", 30), "abcde": "12345"}, ""},
		"one byte more":                {map[string]string{"id": strings.Repeat("x", 31), "abcde": "12345"}, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := map[string][]string{"Ce-Specversion": {"1.0"}}
			var structured strings.Builder
			structured.WriteString(`{"specversion":"1.0"`)
			for name, value := range tc.attributes {
				header["ce-"+name] = []string{value}
				fmt.Fprintf(&structured, ",%q:%q", name, value)
			}
			structured.WriteString("}")
			for mode, read := range map[string]func() (Event, error){
				"binary":     func() (Event, error) { return bounds.FromBinary(header, nil) },
				"structured": func() (Event, error) { return bounds.FromStructured([]byte(structured.String())) },
			} {
				_, err := read()
				if tc.want == "" {
					require.NoError(t, err, mode)
				} else {
					require.EqualError(t, err, tc.want, mode)
				}
			}
			_, err := FromStructured([]byte(structured.String()))
			require.NoError(t, err, "what is stored is read")
			_, err = FromBinary(header, nil)
			require.NoError(t, err, "what is stored is read")
		})
	}
}

func TestExtensionsThatAreWrittenTwiceCount(t *testing.T) {
	t.Parallel()
	_, err := Bounds{Extensions: 3}.FromStructured([]byte(`{"specversion":"1.0","a":1,"a":2,"a":3,"a":4}`))
	require.EqualError(t, err, "the event has more than 3 extensions")
}
