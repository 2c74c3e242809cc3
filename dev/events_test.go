package dev

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEventsAreReadAloneAndInArrays(t *testing.T) {
	t.Parallel()
	const one = `{"specversion":"1.0","id":"1","source":"shop","type":"order.received"}`
	for name, tc := range map[string]struct {
		content string
		want    int
		err     string
	}{
		"one":                     {one, 1, ""},
		"several":                 {" [" + one + ", " + one + "]", 2, ""},
		"none":                    {"[]", 0, "no events"},
		"no JSON":                 {"id: 1", 0, "event 1 is no JSON object"},
		"an array that ends":      {"[" + one, 0, "no JSON"},
		"one that lacks its type": {`[` + one + `, {"specversion":"1.0","id":"1","source":"shop"}]`, 0, "event 2 is no CloudEvent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := parseEvents([]byte(tc.content))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, events, tc.want)
		})
	}
}

func TestAnEventAnewHasIDsOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ before, want string }{
		"its id alone":             {`{"id":"1"}`, `{"id":"1-x"}`},
		"the id of its data too":   {`{"id":"1","data":{"id":"7","n":1}}`, `{"id":"1-x","data":{"id":"7-x","n":1}}`},
		"ids that belong together": {`{"id":"7.received","data":{"id":"7"}}`, `{"id":"7-x.received","data":{"id":"7-x"}}`},
		"data without an id":       {`{"id":"1","data":{"n":1}}`, `{"id":"1-x","data":{"n":1}}`},
		"data with another id":     {`{"id":"1","data":{"id":5}}`, `{"id":"1-x","data":{"id":5}}`},
		"data that is no object":   {`{"id":"1","data":[1]}`, `{"id":"1-x","data":[1]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before event
			require.NoError(t, json.Unmarshal([]byte(tc.before), &before))
			after, err := before.anew("-x")
			require.NoError(t, err)
			text, err := json.Marshal(after)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(text))
			text, err = json.Marshal(before)
			require.NoError(t, err)
			require.JSONEq(t, tc.before, string(text), "the first one stays as it is")
		})
	}
}
