package filter_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/filter"
)

// FuzzCompile checks that any expression is either rejected or has a result for any event.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"", "true", `event.type == "a"`, `data.amount > 100`, `data.items.exists(i, i.sku.matches("^A-[0-9]+$"))`,
		`[data].map(s, s + s).map(s, s + s) == []`, `data.?a.?b.orValue(1) == 1`, `"%s".format([data]) == ""`,
		`data.a.split("").join(data.b).replace("", data.a).indexOf(data.b) == 1`, `timestamp(event.time).getHours("Europe/Berlin") == 1`,
		`{"a": data}.a in [1, 2.0, "x", b"y", null]`, `data == data && data <= data || !(data in data)`,
	} {
		f.Add(seed, `{"amount": 150, "items": [{"sku": "A-1"}], "a": "b", "b": [1, 2.5, null]}`)
		f.Add(seed, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`)
	}
	f.Fuzz(func(t *testing.T, expression, data string) {
		compiled, err := filter.Compile(&v1alpha2.Filter{CEL: expression})
		if err != nil {
			require.Nil(t, compiled)
			return
		}
		e := &cloudevent.Event{ID: "17", Source: "/shop", Type: "order.v1", Time: "2026-01-02T03:04:05Z", Data: []byte(data)}
		checkAnswer(t, compiled, e)
	})
}

// FuzzFilter does the same for whole filters as read from a Subscription.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"exact":{"type":"a"},"prefix":{"Source":""}}`, `{"any":[{"cel":"data.a"},{"not":{"suffix":{"id":"1"}}}]}`,
		`{"all":[{"all":[{"all":[{"cel":"true"}]}]}]}`, `{"nott":{}}`, `{"not":{"not":{"not":{"not":{"not":{"not":{"not":{"not":{}}}}}}}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, written string) {
		var read v1alpha2.NestedFilter
		if !json.Valid([]byte(written)) || read.UnmarshalJSON([]byte(written)) != nil {
			return
		}
		compiled, err := filter.Compile(&v1alpha2.Filter{All: []v1alpha2.NestedFilter{read}})
		if err != nil {
			require.Nil(t, compiled)
			return
		}
		checkAnswer(t, compiled, order(purchase))
	})
}

func checkAnswer(t *testing.T, compiled *filter.Filter, e *cloudevent.Event) {
	t.Helper()
	matches, err := compiled.Match(e)
	if err == nil {
		return
	}
	require.False(t, matches)
	known := errors.Is(err, filter.ErrNotJSON) || errors.Is(err, filter.ErrNotEvaluable) || errors.Is(err, filter.ErrTooExpensive)
	require.True(t, known, "an unknown error: %v", err)
}
