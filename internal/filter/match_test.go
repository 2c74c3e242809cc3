package filter_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/filter"
)

func order(data string) *cloudevent.Event {
	e := &cloudevent.Event{
		ID: "17", Source: "/shop/eu", Type: "order.received.v1", Subject: "orders/17", Time: "2026-01-02T03:04:05Z",
		DataContentType: "application/json", Data: []byte(data),
	}
	e.SetExtension("tenant", "blue")
	return e
}

func compile(tb testing.TB, f *v1alpha2.Filter) *filter.Filter {
	tb.Helper()
	compiled, err := filter.Compile(f)
	require.NoError(tb, err)
	return compiled
}

func TestAttributesMatch(t *testing.T) {
	t.Parallel()
	exact := func(name, value string) v1alpha2.Filter {
		return v1alpha2.Filter{Exact: map[string]string{name: value}}
	}
	yes, no, missing := exact("type", "order.received.v1"), exact("type", "order"), exact("colour", "red")
	list := func(filters ...v1alpha2.Filter) []v1alpha2.NestedFilter {
		var all []v1alpha2.NestedFilter
		for _, f := range filters {
			all = append(all, nested(f))
		}
		return all
	}
	not := func(f v1alpha2.Filter) v1alpha2.Filter {
		return v1alpha2.Filter{Not: &v1alpha2.NestedFilter{Filter: f}}
	}
	tests := map[string]struct {
		filter v1alpha2.Filter
		want   bool
	}{
		"an exact type":                        {yes, true},
		"another type":                         {no, false},
		"another case":                         {exact("type", "Order.received.v1"), false},
		"an exact source":                      {exact("source", "/shop/eu"), true},
		"an exact id":                          {exact("id", "17"), true},
		"an exact subject":                     {exact("subject", "orders/17"), true},
		"an exact time, as it was written":     {exact("time", "2026-01-02T03:04:05Z"), true},
		"an exact content type":                {exact("datacontenttype", "application/json"), true},
		"an exact version":                     {exact("specversion", "1.0"), true},
		"an exact extension":                   {exact("tenant", "blue"), true},
		"another extension":                    {exact("tenant", "red"), false},
		"a missing extension":                  {missing, false},
		"a missing attribute":                  {exact("dataschema", "x"), false},
		"a missing prefix":                     {v1alpha2.Filter{Prefix: map[string]string{"colour": "r"}}, false},
		"two attributes of which one is wrong": {v1alpha2.Filter{Exact: map[string]string{"type": "order.received.v1", "id": "18"}}, false},
		"two attributes that are right":        {v1alpha2.Filter{Exact: map[string]string{"type": "order.received.v1", "id": "17"}}, true},
		"a prefix":                             {v1alpha2.Filter{Prefix: map[string]string{"type": "order."}}, true},
		"a whole text as a prefix":             {v1alpha2.Filter{Prefix: map[string]string{"id": "17"}}, true},
		"another prefix":                       {v1alpha2.Filter{Prefix: map[string]string{"type": "received"}}, false},
		"a suffix":                             {v1alpha2.Filter{Suffix: map[string]string{"type": ".v1"}}, true},
		"another suffix":                       {v1alpha2.Filter{Suffix: map[string]string{"type": ".v2"}}, false},
		"forms are all needed":                 {v1alpha2.Filter{Prefix: map[string]string{"type": "order"}, Suffix: map[string]string{"type": ".v2"}}, false},
		"all of two":                           {v1alpha2.Filter{All: list(yes, exact("tenant", "blue"))}, true},
		"all with one that is wrong":           {v1alpha2.Filter{All: list(yes, no)}, false},
		"any with one that is right":           {v1alpha2.Filter{Any: list(no, missing, yes)}, true},
		"any without a match":                  {v1alpha2.Filter{Any: list(no, missing)}, false},
		"not one that is right":                {not(yes), false},
		"not one that is wrong":                {not(no), true},
		"not a missing attribute":              {not(missing), true},
		"not not":                              {not(not(yes)), true},
		"all within any":                       {v1alpha2.Filter{Any: list(no, v1alpha2.Filter{All: list(yes, not(no))})}, true},
		"any and all are both needed":          {v1alpha2.Filter{Any: list(yes), All: list(no)}, false},
		"not and exact are both needed":        {v1alpha2.Filter{Exact: yes.Exact, Not: &v1alpha2.NestedFilter{Filter: yes}}, false},
		"cel and exact are both needed":        {v1alpha2.Filter{Exact: no.Exact, CEL: "true"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := compile(t, &tc.filter).Match(order(`{}`))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

const purchase = `{"amount": 150, "price": 150.5, "large": 9007199254740993, "tiny": 1e-3, "express": true, "coupon": null,
	"customer": {"name": "Ada", "name with spaces": "x", "tags": ["vip", "eu"]},
	"items": [{"sku": "A-1", "count": 2}, {"sku": "B-2", "count": 30}], "first": 0, "namespace": "prod"}`

func TestExpressionMatches(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		`true`:                                                                  true,
		`event.type == "order.received.v1"`:                                     true,
		`event["type"].startsWith("order.")`:                                    true,
		`event.tenant in ["blue", "green"]`:                                     true,
		`"tenant" in event && !("colour" in event)`:                             true,
		`has(event.tenant)`:                                                     true,
		`has(event.colour) && event.colour == "red"`:                            false,
		`event.specversion == "1.0"`:                                            true,
		`event.size() == 8`:                                                     true,
		`timestamp(event.time) < timestamp("2027-01-01T00:00:00Z")`:             true,
		`timestamp(event.time).getHours() == 3`:                                 true,
		`event.subject.split("/")[1] == "17"`:                                   true,
		`event.subject.matches("^orders/[0-9]+$")`:                              true,
		`matches(event.subject, "^x")`:                                          false,
		`data.amount > 100`:                                                     true,
		`data.price > 100`:                                                      true,
		`data.price > 150 && data.price < 151`:                                  true,
		`data.amount == 150`:                                                    true,
		`data.amount == 150.0`:                                                  true,
		`data.amount >= 149.9 && data.amount <= 150.1`:                          true,
		`data.amount * 2 == 300`:                                                true,
		`double(data.amount) * 1.1 > 164.9`:                                     true,
		`data.large == 9007199254740993`:                                        true,
		`data.large == 9007199254740992`:                                        false,
		`data.tiny < 1`:                                                         true,
		`data.amount in [149, 150]`:                                             true,
		`data.express == true`:                                                  true,
		`data.coupon == null`:                                                   true,
		`has(data.customer.name)`:                                               true,
		`!has(data.customer.phone)`:                                             true,
		`data.?customer.?phone.orValue("none") == "none"`:                       true,
		`data.customer["name with spaces"] == "x"`:                              true,
		`data.namespace == "prod"`:                                              true,
		`"vip" in data.customer.tags`:                                           true,
		`data.items.exists(i, i.sku == "B-2" && i.count > 20)`:                  true,
		`data.items.all(i, i.count > 5)`:                                        false,
		`data.items.filter(i, i.count > 5).size() == 1`:                         true,
		`data.items.map(i, i.count)[data.first] == 2`:                           true,
		`data.items[0].sku.lowerAscii() == "a-1"`:                               true,
		`data.items[0] == {"sku": "A-1", "count": 2}`:                           true,
		`data.customer.tags == ["vip", "eu"]`:                                   true,
		`data.customer.name.replace("A", "E") == "Eda"`:                         true,
		`data.customer.name.replace("A", "E", 1) == "Eda"`:                      true,
		`data.customer.name.indexOf("d") == 1`:                                  true,
		`data.customer.name.indexOf("d", 2) == -1`:                              true,
		`data.customer.name.lastIndexOf("a") == 2`:                              true,
		`data.customer.name.lastIndexOf("a", 1) == -1`:                          true,
		`data.customer.tags.join() == "vipeu"`:                                  true,
		`data.customer.tags.join("+") == "vip+eu"`:                              true,
		`"%s-%d".format([data.customer.name, data.amount]) == "Ada-150"`:        true,
		`data.customer.name.substring(1).upperAscii().trim().reverse() == "AD"`: true,
		`data.nothing == 1 || event.type.endsWith(".v1")`:                       true,
		`data.nothing == 1 && event.type == "x"`:                                false,
		`data.amount > 100 ? event.id == "17" : false`:                          true,
		`type(data.amount) == int && type(data.price) == double`:                true,
	}
	for expression, want := range tests {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got, err := compile(t, &v1alpha2.Filter{CEL: expression}).Match(order(purchase))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestExpressionThatCannotBeEvaluatedDoesNotMatch(t *testing.T) {
	t.Parallel()
	text := `"` + strings.Repeat("a", 60_000) + `"`
	list := "[" + strings.Repeat("1,", 20_000) + "1]"
	tests := map[string]struct {
		expression, data string
		want             error
	}{
		"a missing field":              {`data.amount > 1`, `{}`, filter.ErrNotEvaluable},
		"a missing attribute":          {`event.colour == "red"`, `{}`, filter.ErrNotEvaluable},
		"a text instead of a number":   {`data.amount > 1`, `{"amount": "2"}`, filter.ErrNotEvaluable},
		"data that is a list":          {`data.amount > 1`, `[1]`, filter.ErrNotEvaluable},
		"an index behind the end":      {`data[1] == 1`, `[1]`, filter.ErrNotEvaluable},
		"a number that is too large":   {`data.a == 1`, `{"a": 1e999}`, filter.ErrNotJSON},
		"a division by zero":           {`1 / data.a == 1`, `{"a": 0}`, filter.ErrNotEvaluable},
		"a pattern on a number":        {`data.a.matches("1")`, `{"a": 1}`, filter.ErrNotEvaluable},
		"data that is not JSON":        {`data.amount > 1`, `<amount>2</amount>`, filter.ErrNotJSON},
		"no data":                      {`has(data.amount)`, ``, filter.ErrNotJSON},
		"more behind the JSON":         {`data.amount > 1`, `{"amount":2} {}`, filter.ErrNotJSON},
		"JSON without an end":          {`data == 1`, strings.Repeat("[", 60_000), filter.ErrNotJSON},
		"loops over loops":             {`range.all(a, range.all(b, range.all(c, a + b >= c - 1)))`, `1`, filter.ErrTooExpensive},
		"a text that doubles":          {`[data].map(s, s + s)` + strings.Repeat(`.map(s, s + s)`, 8) + ` == []`, text, filter.ErrTooExpensive},
		"a text that is replaced":      {`data.replace("a", data) == ""`, text, filter.ErrTooExpensive},
		"a text that is joined":        {`data.split("").join(data) == ""`, text, filter.ErrTooExpensive},
		"a text that is searched":      {`data.indexOf(data.substring(30000) + "b") == 1`, text, filter.ErrTooExpensive},
		"a text searched from behind":  {`data.lastIndexOf("b" + data.substring(30000)) == 1`, text, filter.ErrTooExpensive},
		"a text with a pattern":        {`data.matches("(a|b|ab|ba){100}c")`, text, filter.ErrTooExpensive},
		"a text that is formatted":     {`"%s".format([[data].map(a, [a,a,a,a,a,a,a,a,a]).map(a, [a,a,a,a,a,a,a,a,a])]) == ""`, text, filter.ErrTooExpensive},
		"lists compared over and over": {`range.all(a, range.all(b, data == data))`, list, filter.ErrTooExpensive},
		"lists searched over and over": {`range.all(a, range.all(b, !(2 in data)))`, list, filter.ErrTooExpensive},
		"sizes counted over and over":  {`range.all(a, range.all(b, range.all(c, data.size() > 5)))`, text, filter.ErrTooExpensive},
		"numbers read over and over":   {`range.all(a, range.all(b, range.all(c, double("1" + data) > 5.0)))`, `"` + strings.Repeat("1", 60_000) + `"`, filter.ErrTooExpensive},
		"time zones over and over":     {`range.all(a, range.all(b, range.all(c, timestamp(event.time).getHours("Europe/Berlin") > -1)))`, `1`, filter.ErrTooExpensive},
		"texts compared over and over": {`range.all(a, range.all(b, range.all(c, data <= data)))`, text, filter.ErrTooExpensive},
		"texts quoted over and over":   {`range.all(a, range.all(b, range.all(c, strings.quote(data) != "")))`, text, filter.ErrTooExpensive},
	}
	numbers := "[" + strings.Repeat("1,", 60) + "1]"
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled := compile(t, &v1alpha2.Filter{CEL: strings.ReplaceAll(tc.expression, "range", numbers)})
			got, err := compiled.Match(order(tc.data))
			require.ErrorIs(t, err, tc.want)
			require.EqualError(t, err, "evaluate spec.filter.cel: "+tc.want.Error(), "an event does not appear in errors")
			require.False(t, got)
		})
	}
}

func TestPartThatCannotBeEvaluatedMattersOnlyWhereTheOthersDoNotDecide(t *testing.T) {
	t.Parallel()
	fails, yes, no := nested(v1alpha2.Filter{CEL: "data.x == 1"}), nested(v1alpha2.Filter{CEL: "true"}), nested(v1alpha2.Filter{CEL: "false"})
	list := func(all ...v1alpha2.NestedFilter) []v1alpha2.NestedFilter { return all }
	tests := map[string]struct {
		filter    v1alpha2.Filter
		want      bool
		wantError string
	}{
		"any with a true part":                  {filter: v1alpha2.Filter{Any: list(fails, yes)}, want: true},
		"any without a true part":               {filter: v1alpha2.Filter{Any: list(no, fails)}, wantError: "spec.filter.any[1].cel"},
		"all with a false part":                 {filter: v1alpha2.Filter{All: list(fails, no)}},
		"all without a false part":              {filter: v1alpha2.Filter{All: list(yes, fails)}, wantError: "spec.filter.all[1].cel"},
		"not":                                   {filter: v1alpha2.Filter{Not: &fails}, wantError: "spec.filter.not.cel"},
		"beside an expression that is false":    {filter: v1alpha2.Filter{Any: list(fails), CEL: "false"}},
		"beside an expression that is true":     {filter: v1alpha2.Filter{Any: list(fails), CEL: "true"}, wantError: "spec.filter.any[0].cel"},
		"beside an attribute that is different": {filter: v1alpha2.Filter{CEL: fails.CEL, Exact: map[string]string{"id": "x"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := compile(t, &tc.filter).Match(order(`{}`))
			if tc.wantError == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "evaluate "+tc.wantError+":")
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestExpressionsOfOneFilterShareTheLimit(t *testing.T) {
	t.Parallel()
	numbers := "[" + strings.Repeat("1,", 9) + "1]"
	costly := nested(v1alpha2.Filter{CEL: strings.ReplaceAll("range.all(a, range.all(b, range.all(c, a == b)))", "range", numbers)})
	several := &v1alpha2.Filter{}
	for range 9 {
		several.All = append(several.All, costly)
	}

	got, err := compile(t, &costly.Filter).Match(order(`{}`))
	require.NoError(t, err)
	require.True(t, got)

	got, err = compile(t, several).Match(order(`{}`))
	require.ErrorIs(t, err, filter.ErrTooExpensive)
	require.False(t, got)
}

func TestWorkIsCountedBeforeAndAfter(t *testing.T) {
	t.Parallel()
	large := "[" + strings.Repeat("1,", 17_000) + "1]"
	tests := map[string]struct {
		filter              v1alpha2.Filter
		data                string
		alwaysLight         bool
		lightAhead, lightly bool
	}{
		"attributes":                    {v1alpha2.Filter{Exact: map[string]string{"type": "a"}}, large, true, true, true},
		"an expression over attributes": {v1alpha2.Filter{CEL: `event.type == "a"`}, large, false, true, true},
		"an expression over few data":   {v1alpha2.Filter{CEL: `data.amount > 100`}, purchase, false, true, true},
		"an expression over many data":  {v1alpha2.Filter{CEL: `data[0] == 1`}, large, false, false, false},
		"a long loop over few data":     {v1alpha2.Filter{CEL: `[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, data != 1)))`}, `2`, false, true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled, e := compile(t, &tc.filter), order(tc.data)
			_, work, err := compiled.Measure(e)
			require.NoError(t, err)
			require.Equal(t, tc.alwaysLight, compiled.AlwaysLight())
			require.Equal(t, tc.lightAhead, compiled.WorkAhead(e) <= filter.Light)
			require.Equal(t, tc.lightly, work <= filter.Light)
		})
	}
}

func TestDataIsParsedOnlyWhenAnExpressionReadsIt(t *testing.T) {
	t.Parallel()
	got, err := compile(t, &v1alpha2.Filter{CEL: `event.id == "17"`}).Match(order(`no JSON`))
	require.NoError(t, err)
	require.True(t, got)
}

func TestMatchingLeavesTheEventAsItIs(t *testing.T) {
	t.Parallel()
	e := order(purchase)
	_, err := compile(t, &v1alpha2.Filter{CEL: `data.items.all(i, i.count > 0) && event.size() > 0`}).Match(e)
	require.NoError(t, err)
	require.Equal(t, order(purchase), e)
}

func TestFilterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	compiled := compile(t, &v1alpha2.Filter{
		CEL: `data.amount > 100 && event.subject.matches("^orders/") && data.customer.tags.join(",") == "vip,eu"`,
		Any: []v1alpha2.NestedFilter{nested(v1alpha2.Filter{Exact: map[string]string{"tenant": "blue"}})},
	})
	shared := order(purchase)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				got, err := compiled.Match(shared)
				if err != nil || !got {
					t.Errorf("got %v, %v", got, err)
					return
				}
			}
		})
	}
	group.Wait()
}
