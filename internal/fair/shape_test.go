package fair

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValuesAreCountedOutsideOfTextsHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	none := JSONLimits{Values: 100, Depth: 100}
	for text, want := range map[string]JSONCounter{
		`{"a":[1,{},"x"],"b":"{[,\"{[,\\"}`: {values: 6},
		`{"a":"\\","b":[`:                   {values: 3, depth: 2},
		`"\"{`:                              {text: true},
		`{},{},{}`:                          {values: 5},
		``:                                  {},
	} {
		want.Limits = none
		for _, size := range []int{1, 3, max(1, len(text))} {
			got := JSONCounter{Limits: none}
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				require.True(t, got.Add([]byte(rest[:n])))
				rest = rest[n:]
			}
			require.Equal(t, want, got, text)
		}
	}
}

func TestATextOverALimitIsKnownAtTheValueThatIsTooMuch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits JSONLimits
		text   string
		want   bool
	}{
		"as many values as there may be": {JSONLimits{Values: 3, Depth: 9}, `[1,2,`, true},
		"one more":                       {JSONLimits{Values: 3, Depth: 9}, `[1,2,3,`, false},
		"as deep as it may be":           {JSONLimits{Values: 9, Depth: 3}, `[[[`, true},
		"deeper":                         {JSONLimits{Values: 9, Depth: 3}, `[[[[`, false},
		"wide and not deep":              {JSONLimits{Values: 9, Depth: 1}, `[][][]`, true},
	} {
		counter := JSONCounter{Limits: tc.limits}
		require.Equal(t, tc.want, counter.Add([]byte(tc.text)), name)
	}
}

// What is decoded has no more values than were counted.
func FuzzCounter(f *testing.F) {
	for _, text := range []string{`{"a":[1,{},"x"],"b":"{[,\"{[,\\"}`, `[[],{},"\u0022,",null]`, `"`, strings.Repeat("[", 40)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		counter := JSONCounter{Limits: JSONLimits{Values: len(text) + 1, Depth: len(text) + 1}}
		require.True(t, counter.Add([]byte(text)))
		require.LessOrEqual(t, containers(value), counter.values)
		require.Zero(t, counter.depth)
	})
}

// containers are the objects and arrays of a value, and what is in them but for the first.
func containers(value any) int {
	count := 0
	switch value := value.(type) {
	case map[string]any:
		count = 1 + max(len(value)-1, 0)
		for _, each := range value {
			count += containers(each)
		}
	case []any:
		count = 1 + max(len(value)-1, 0)
		for _, each := range value {
			count += containers(each)
		}
	}
	return count
}
