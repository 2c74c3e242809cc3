package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAListIsDecodedItemByItem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body  string
		names []string
		next  string
		err   string
	}{
		"items before metadata":  {`{"apiVersion":"v1","items":[{"metadata":{"name":"a"},"spec":{"x":[1,{}]}},{"metadata":{"name":"b"}}],"metadata":{"continue":"c"}}`, []string{"a", "b"}, "c", ""},
		"metadata before items":  {`{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}],"more":{"items":[1]}}`, []string{"a"}, "", ""},
		"no items":               {`{"items":[],"metadata":{}}`, nil, "", ""},
		"null items":             {`{"items":null,"metadata":{"continue":"c"}}`, nil, "c", ""},
		"a list that breaks off": {`{"items":[{"metadata":{"name":"a"}},{"meta`, []string{"a"}, "", "read what the API server sent: unexpected EOF"},
		"no list":                {`{"items":7}`, nil, "", "read what the API server sent"},
		"no JSON":                {`<html>`, nil, "", "read what the API server sent"},
		"nothing":                {``, nil, "", "read what the API server sent: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var names []string
			next, err := decodeList(strings.NewReader(tc.body), func(item *listedFunction) error {
				names = append(names, item.Name)
				return nil
			})
			require.Equal(t, tc.names, names)
			require.Equal(t, tc.next, next)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
	refused := errors.New("there are more than 1")
	_, err := decodeList(strings.NewReader(`{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`), func(*listedFunction) error { return refused })
	require.ErrorIs(t, err, refused)
}
