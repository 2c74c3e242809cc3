package filter_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/filter"
)

func BenchmarkMatch(b *testing.B) {
	exact := v1alpha2.Filter{Exact: map[string]string{"type": "order.received.v1"}}
	forms := map[string]v1alpha2.Filter{
		"exact":     exact,
		"prefix":    {Prefix: map[string]string{"source": "/shop"}},
		"suffix":    {Suffix: map[string]string{"tenant": "ue"}},
		"all":       {All: []v1alpha2.NestedFilter{nested(exact), nested(exact)}},
		"any":       {Any: []v1alpha2.NestedFilter{nested(v1alpha2.Filter{Exact: map[string]string{"id": "0"}}), nested(exact)}},
		"not":       {Not: &v1alpha2.NestedFilter{Filter: v1alpha2.Filter{Exact: map[string]string{"id": "0"}}}},
		"cel event": {CEL: `event.type == "order.received.v1"`},
		"cel data":  {CEL: `data.amount > 100`},
		"cel items": {CEL: `data.items.exists(i, i.sku.startsWith("B"))`},
		"cel regex": {CEL: `event.subject.matches("^orders/[0-9]+$")`},
	}
	for name, form := range forms {
		b.Run(name, func(b *testing.B) {
			compiled, e := compile(b, &form), order(purchase)
			b.ReportAllocs()
			for b.Loop() {
				if matches, err := compiled.Match(e); !matches || err != nil {
					b.Fatal(matches, err)
				}
			}
		})
	}
}

// BenchmarkTooExpensive measures how long a hostile expression and event occupy a bridge.
func BenchmarkTooExpensive(b *testing.B) {
	numbers := "[" + strings.Repeat("1,", 60) + "1]"
	loops := func(body string) string {
		return fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[2]s)))", numbers, body)
	}
	text := `"` + strings.Repeat("a", 60_000) + `"`
	list := "[" + strings.Repeat("1,", 20_000) + "1]"
	tests := map[string]struct{ expression, data string }{
		"long loops":  {"data.all(a, data.all(b, data.all(c, a == b)))", list},
		"long maps":   {"data.map(a, a + 1).map(a, a + 1).map(a, {'a': [a, a]}).size() > 0", list},
		"long has":    {"data.all(a, data.all(b, has(event.type) && (a > 0 ? event.type != '' : false)))", list},
		"loops":       {loops("data == data"), "1"},
		"comparisons": {loops("data == data"), list},
		"searches":    {loops("!(2 in data)"), list},
		"patterns":    {`data.matches("(a|b|ab|ba)*(a|b|ab|ba)*(a|b|ab|ba)*c") || true`, text},
		"texts":       {loops("data.contains(data)"), text},
		"small texts": {loops(`("a" + "b").replace("b", "c").split("").join("") != ""`), text},
		"indexes":     {loops(`data.indexOf("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab") < 0`), text},
		"zones":       {loops(`timestamp(event.time).getHours("Europe/Berlin") > -1`), "1"},
		"lists":       {loops(`(data + data).size() > 0`), list},
		"maps":        {loops(`{"a": data, "b": [data], "c": {"d": data}}.size() > 0`), list},
		"formats":     {loops(`"%s".format([data]) != ""`), "1.5"},
		"fractions":   {loops(`"%.100f".format([data]) != ""`), "1e300"},
		"doubling":    {`[data].map(s, s + s)` + strings.Repeat(`.map(s, s + s)`, 8) + ` == []`, text},
	}
	for name, tc := range tests {
		b.Run(name, func(b *testing.B) {
			compiled, e := compile(b, &v1alpha2.Filter{CEL: tc.expression}), order(tc.data)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = compiled.Match(e)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, &v1alpha2.Filter{CEL: `event.type == "order.received.v1" && data.amount > 100`})
	}
}

// BenchmarkMemory measures the memory of the filters of 10,000 Subscriptions.
func BenchmarkMemory(b *testing.B) {
	const subscriptions = 10_000
	for b.Loop() {
		before := heap()
		filters := make([]*filter.Filter, 0, subscriptions)
		for i := range subscriptions {
			compiled, err := filter.Compile(&v1alpha2.Filter{
				Prefix: map[string]string{"source": "/shop"},
				CEL:    fmt.Sprintf(`event.type == "order.received.v1" && data.amount > %d`, i),
			})
			require.NoError(b, err)
			filters = append(filters, compiled)
		}
		b.ReportMetric(float64(heap()-before)/subscriptions, "B/filter")
		runtime.KeepAlive(filters)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
