package v1alpha2_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

func TestNestedFilterRoundTripsUnchanged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		written      string
		want         v1alpha2.Filter
		wantProblems map[string]string
	}{
		"a filter": {
			written: `{"cel":"true","exact":{"type":"a"},"not":{"prefix":{"source":"b"}}}`,
			want: v1alpha2.Filter{
				CEL: "true", Exact: map[string]string{"type": "a"},
				Not: &v1alpha2.NestedFilter{Filter: v1alpha2.Filter{Prefix: map[string]string{"source": "b"}}},
			},
		},
		"nothing": {written: `{}`},
		"a misspelt member": {
			written:      `{"exat":{"type":"a"},"cel":"true"}`,
			wantProblems: map[string]string{"exat": "is not known; a filter has cel, exact, prefix, suffix, all, any and not"},
		},
		"a member in another case": {
			written:      `{"CEL":"true"}`,
			wantProblems: map[string]string{"CEL": "is not known; a filter has cel, exact, prefix, suffix, all, any and not"},
		},
		"members of wrong types": {
			written: `{"cel":1,"exact":"a","any":{},"not":[]}`,
			wantProblems: map[string]string{
				"cel": "has to be a text", "exact": "has to be an object of attributes and texts",
				"any": "has to be a list of filters",
			},
		},
		"a text": {written: `"a"`, wantProblems: map[string]string{"": "has to be an object; a filter has cel, exact, prefix, suffix, all, any and not"}},
		"null":   {written: `null`, wantProblems: map[string]string{"": "has to be an object; a filter has cel, exact, prefix, suffix, all, any and not"}},
		"filters without an end": {
			written:      strings.Repeat(`{"not":`, 5000) + `{}` + strings.Repeat(`}`, 5000),
			wantProblems: map[string]string{"": "is nested too deep; write it flatter, for example as one cel expression"},
		},
		"brackets in texts": {
			written: `{"cel":"` + strings.Repeat(`[{\"\\`, 50) + `"}`,
			want:    v1alpha2.Filter{CEL: strings.Repeat(`[{"\`, 50)},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A slice, because not every decoder passes a null that is a whole document to UnmarshalJSON.
			var read []v1alpha2.NestedFilter
			require.NoError(t, json.Unmarshal([]byte("["+tc.written+"]"), &read))

			require.Equal(t, tc.want, read[0].Filter)
			require.Equal(t, tc.wantProblems, noneIfEmpty(maps.Collect(read[0].Problems())))
			back, err := json.Marshal(read[0].DeepCopy())
			require.NoError(t, err)
			require.JSONEq(t, tc.written, string(back))
		})
	}
}

func TestMisspeltFilterHidesNoOtherSubscription(t *testing.T) {
	t.Parallel()
	list := `{"items":[
		{"metadata":{"name":"odd"},"spec":{"filter":{"any":[{"exact":"a","prefx":{}}],"not":{"all":["x"]}}}},
		{"metadata":{"name":"good"},"spec":{"filter":{"any":[{"cel":"true"}]}}}]}`
	read := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(list), &read))
	subscriptions := &v1alpha2.SubscriptionList{}

	require.NoError(t, json.Unmarshal([]byte(list), subscriptions))
	require.Equal(t, "true", subscriptions.Items[1].Spec.Filter.Any[0].CEL)

	odd := read["items"].([]any)[0].(map[string]any)
	typed := &v1alpha2.Subscription{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(odd, typed))
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	require.NoError(t, err)
	require.Equal(t, odd["spec"].(map[string]any)["filter"], back["spec"].(map[string]any)["filter"])
}

// FuzzNestedFilter checks that every value that the API server can store is decoded, and written back unchanged.
func FuzzNestedFilter(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"cel":"true"}`, `{"any":[{"exact":{"type":"a"}},null,5]}`, `{"not":{"nott":{}}}`, `{"exact":{"type":null}}`, `[]`, `"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, written string) {
		if !json.Valid([]byte(written)) {
			return
		}
		var filter v1alpha2.NestedFilter
		require.NoError(t, filter.UnmarshalJSON([]byte(written)))
		back, err := json.Marshal(filter)
		require.NoError(t, err)
		var again v1alpha2.NestedFilter
		require.NoError(t, again.UnmarshalJSON(back))
		twice, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(back), string(twice))
	})
}

func noneIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
