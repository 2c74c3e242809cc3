package filter_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/filter"
)

const remedy = `; write a condition on "event" (its attributes) and "data" (its JSON), ` +
	`for example event.type == "order.received" && data.amount > 100`

const noCondition = ": has no condition; set cel, exact, prefix, suffix, all, any or not, and check their spelling, " +
	"or remove it to take every event"

const manyPatterns = "spec.filter: its patterns of matches have more than 8000 steps together, with their repetitions written out; " +
	"repeat less in them"

func nested(f v1alpha2.Filter) v1alpha2.NestedFilter { return v1alpha2.NestedFilter{Filter: f} }

func deep(levels int) *v1alpha2.Filter {
	f := &v1alpha2.Filter{Exact: map[string]string{"type": "a"}}
	for range levels - 1 {
		f = &v1alpha2.Filter{Not: &v1alpha2.NestedFilter{Filter: *f}}
	}
	return f
}

func wide(lists, each int) *v1alpha2.Filter {
	f := &v1alpha2.Filter{}
	for range lists {
		f.All = append(f.All, nested(v1alpha2.Filter{Any: several(each)}))
	}
	return f
}

func several(n int) []v1alpha2.NestedFilter {
	return slices.Repeat([]v1alpha2.NestedFilter{nested(v1alpha2.Filter{Exact: map[string]string{"type": "a"}})}, n)
}

func attributes(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprintf("a%d", i)] = "x"
	}
	return all
}

func TestErrorOfAFilterNamesThePathAndTheRemedy(t *testing.T) {
	t.Parallel()
	long := "event.type == '" + strings.Repeat("x", 4096-16) + "'"
	tests := map[string]struct {
		filter *v1alpha2.Filter
		want   []string
	}{
		"an empty filter": {&v1alpha2.Filter{}, []string{"spec.filter" + noCondition}},
		"empty lists and objects": {
			&v1alpha2.Filter{All: []v1alpha2.NestedFilter{}, Any: []v1alpha2.NestedFilter{}, Exact: map[string]string{}},
			[]string{"spec.filter" + noCondition},
		},
		"empty filters in a filter": {
			&v1alpha2.Filter{
				CEL: "true", All: several(1), Any: append(several(1), v1alpha2.NestedFilter{}), Not: &v1alpha2.NestedFilter{},
			},
			[]string{"spec.filter.any[1]" + noCondition, "spec.filter.not" + noCondition},
		},
		"a name in capitals": {
			&v1alpha2.Filter{Exact: map[string]string{"Type": "a"}},
			[]string{"spec.filter.exact.Type: is not the name of an attribute; use lower-case letters and digits only"},
		},
		"a name with a dash and an empty one": {
			&v1alpha2.Filter{Prefix: map[string]string{"ce-type": "a", "": "b"}},
			[]string{
				"spec.filter.prefix.: is not the name of an attribute; use lower-case letters and digits only",
				"spec.filter.prefix.ce-type: is not the name of an attribute; use lower-case letters and digits only",
			},
		},
		"data as an attribute": {
			&v1alpha2.Filter{Suffix: map[string]string{"data": "a"}},
			[]string{"spec.filter.suffix.data: data is not an attribute; compare it in cel, for example data.amount > 100"},
		},
		"an empty text to compare with": {
			&v1alpha2.Filter{Exact: map[string]string{"subject": ""}},
			[]string{`spec.filter.exact.subject: is empty; name the text to compare with, or remove it; ` +
				`to check whether an event has an attribute, use cel, for example "subject" in event`},
		},
		"an endless name": {
			&v1alpha2.Filter{Exact: map[string]string{strings.Repeat("A", 5000): "a"}},
			[]string{"spec.filter.exact." + strings.Repeat("A", 64) + "...: is not the name of an attribute; use lower-case letters and digits only"},
		},
		"everything at once": {
			&v1alpha2.Filter{
				Exact: map[string]string{"Type": "a"},
				Any:   []v1alpha2.NestedFilter{nested(v1alpha2.Filter{CEL: "true"}), nested(v1alpha2.Filter{CEL: "evnt.type == ''"})},
				Not:   &v1alpha2.NestedFilter{Unread: []byte(`{"exat":{}}`)},
			},
			[]string{
				"spec.filter.exact.Type: is not the name of an attribute; use lower-case letters and digits only",
				"spec.filter.any[1].cel: line 1, column 1: undeclared reference to 'evnt' (in container '')" + remedy,
				"spec.filter.not.exat: is not known; a filter has cel, exact, prefix, suffix, all, any and not",
			},
		},
		"a nested filter of another type": {
			&v1alpha2.Filter{All: []v1alpha2.NestedFilter{{Unread: []byte(`5`)}}},
			[]string{"spec.filter.all[0]: has to be an object; a filter has cel, exact, prefix, suffix, all, any and not"},
		},
		"nine levels": {
			deep(9),
			[]string{"spec.filter" + strings.Repeat(".not", 8) + ": is nested deeper than 8 filters; write it flatter, for example as one cel expression"},
		},
		"a hundred and one filters": {
			wide(20, 5),
			[]string{"spec.filter: has more than 100 filters in it; write it shorter, for example as one cel expression"},
		},
		"a long list": {
			&v1alpha2.Filter{Any: several(33)},
			[]string{"spec.filter.any: has 33 filters; at most 32 are allowed"},
		},
		"many attributes": {
			&v1alpha2.Filter{Not: &v1alpha2.NestedFilter{Filter: v1alpha2.Filter{Exact: attributes(33)}}},
			[]string{"spec.filter.not.exact: has 33 attributes; at most 32 are allowed"},
		},
		"a long expression": {
			&v1alpha2.Filter{CEL: long + " "},
			[]string{"spec.filter.cel: has 4097 characters; at most 4096 are allowed"},
		},
		"long expressions together": {
			&v1alpha2.Filter{All: []v1alpha2.NestedFilter{
				nested(v1alpha2.Filter{CEL: long}), nested(v1alpha2.Filter{CEL: long}), nested(v1alpha2.Filter{CEL: long}),
				nested(v1alpha2.Filter{CEL: long}), nested(v1alpha2.Filter{CEL: "true"}),
			}},
			[]string{"spec.filter: has more than 16384 characters of cel in it; write less"},
		},
		"loops one after the other": {
			&v1alpha2.Filter{
				CEL: strings.Repeat("data.all(a, a == 1) && ", 31) + "true",
				Any: []v1alpha2.NestedFilter{nested(v1alpha2.Filter{CEL: "data.all(a, a == 1) && data.all(a, a == 1)"})},
			},
			[]string{"spec.filter: has more than 32 loops in it (all, exists, map, filter, ...); write fewer"},
		},
		"many patterns": {
			&v1alpha2.Filter{CEL: strings.Repeat("event.type.matches('a{999}') || ", 100) + "true"},
			[]string{manyPatterns},
		},
		"patterns of several expressions": {
			&v1alpha2.Filter{CEL: "event.type.matches('a{990}')", Any: slices.Repeat([]v1alpha2.NestedFilter{
				nested(v1alpha2.Filter{CEL: "data.list.exists(a, event.type.matches('(a|b|c){450}'))"}),
			}, 5)},
			[]string{manyPatterns},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled, err := filter.Compile(tc.filter)
			require.EqualError(t, err, strings.Join(tc.want, "\n"))
			require.Nil(t, compiled)
		})
	}
}

// The library takes seconds or even minutes to check the types of such expressions of a few thousand characters.
func TestExpressionThatWouldCompileSlowlyIsRejectedFirst(t *testing.T) {
	t.Parallel()
	around := func(before, inner, after string, n int) string {
		return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
	}
	const nested = "spec.filter.cel: has more than 10 lists, maps and loops in one another; write it flatter"
	tests := map[string]string{
		"lists in lists":                     strings.Repeat(around("[", "1", "]", 200)+" != [] || ", 9) + "true",
		"maps in maps":                       strings.Repeat(around("{'a': ", "{}", "}", 100)+" != {} || ", 5) + "true",
		"loops in loops":                     around("[1].map(a, ", "1", ")", 100) + " != []",
		"loops over loops":                   "[1]" + strings.Repeat(".map(a, [a])", 100) + " != []",
		"optional values of optional values": around("optional.of(", "1", ")", 200) + ".hasValue()",
		"types of types":                     around("type(", "1", ")", 200) + " == int",
	}
	for name, expression := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := filter.Compile(&v1alpha2.Filter{CEL: expression})
			require.EqualError(t, err, nested)
		})
	}
}

func TestErrorOfAnExpressionNamesItsCause(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ expression, want string }{
		"a text":                  {"event.type", "is of type string, not bool; compare it with something, for example data.amount > 100 or data.express == true"},
		"data alone":              {"data.express", "is of type dyn, not bool; compare it with something, for example data.amount > 100 or data.express == true"},
		"types that do not match": {"event.type > 5", "line 1, column 12: found no matching overload for '_>_' applied to '(string, int)'" + remedy},
		"an unknown function":     {"data.now() < 5", "line 1, column 9: undeclared reference to 'now' (in container '')" + remedy},
		"a pattern of data":       {"event.type.matches(data.pattern)", `matches needs its pattern as a text in quotes, for example event.subject.matches("^orders/[0-9]+$")`},
		"a broken pattern":        {"event.type.matches('(')", "the pattern of matches is not a regular expression: error parsing regexp: missing closing ): `(`"},
		"an enormous pattern":     {"event.type.matches('.{1000}.{1000}')", "the pattern of matches has more than 2000 steps with its repetitions written out; repeat less in it"},
		"only white space":        {"  ", "line 1, column 3: Syntax error: mismatched input '<EOF>' expecting " + anyToken + remedy},
		"a second line":           {"true &&\n  evnt.a == 1", "line 2, column 3: undeclared reference to 'evnt' (in container '')" + remedy},
		"endless parentheses":     {strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), "expression recursion limit exceeded: 250" + remedy},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := filter.Compile(&v1alpha2.Filter{CEL: tc.expression})
			require.EqualError(t, err, "spec.filter.cel: "+tc.want)
		})
	}
}

const anyToken = `{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}`

func TestFilterAtItsBoundsCompiles(t *testing.T) {
	t.Parallel()
	tests := map[string]*v1alpha2.Filter{
		"nothing":             nil,
		"eight levels":        deep(8),
		"a hundred filters":   wide(9, 10),
		"32 attributes":       {Exact: attributes(32)},
		"4096 characters":     {CEL: "event.type == '" + strings.Repeat("ü", 4096-16) + "'"},
		"macros and strings":  {CEL: `data.items.exists(i, i.sku.lowerAscii().startsWith("a")) && data.?a.orValue(1) > 0`},
		"ten in one another":  {CEL: "[[[[[[[[[[1]]]]]]]]]] != []"},
		"32 loops":            {CEL: strings.Repeat("data.all(a, a == 1) && ", 32) + "true"},
		"a long alternatives": {CEL: `event.subject.matches("` + strings.Repeat("abcde|", 150) + `x")`},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := filter.Compile(f)
			require.NoError(t, err)
		})
	}
}

// A caller that caches filters bounds their memory by Bytes.
func TestBytesApproximatesTheMemoryOfAFilter(t *testing.T) {
	for name, text := range map[string]string{ // not parallel: it measures memory
		"comparisons": "event.id != 'a'" + strings.Repeat(" && event.id != 'b'", 200),
		"fields":      "has(data.a)" + strings.Repeat(" || has(data.a.b.c)", 150),
		"a loop":      "data.all(a, a == 1" + strings.Repeat(" || a == 2", 350) + ")",
		"patterns":    "event.id.matches('a{990}')" + strings.Repeat(" || event.id.matches('a{990}')", 3),
		"texts":       "event.id == '" + strings.Repeat("x", 4000) + "'",
	} {
		compile := func() *filter.Filter {
			compiled, err := filter.Compile(&v1alpha2.Filter{CEL: text})
			require.NoError(t, err, name)
			return compiled
		}
		compile() // initializes the shared environment
		before := heap()
		kept := [8]*filter.Filter{}
		for i := range kept {
			kept[i] = compile()
		}
		taken := (int64(heap()) - int64(before)) / int64(len(kept))
		require.LessOrEqual(t, taken, 2*kept[0].Bytes()+16<<10, name)
		runtime.KeepAlive(&kept)
	}
}
