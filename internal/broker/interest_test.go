package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnwantedIsWhatNoConsumerHas(t *testing.T) {
	t.Parallel()
	has := holding{first: 10, last: 90, subjects: map[string]uint64{"kyma.shop.a": 3, "kyma.shop.b": 5, "kyma.shop.b.c": 7}}
	for name, tc := range map[string]struct {
		consumers []interest
		partly    bool
		want      []purge
	}{
		"no consumer has interest": {
			want: []purge{{"kyma.shop.a", 90}, {"kyma.shop.b", 90}, {"kyma.shop.b.c", 90}},
		},
		"each has its own": {
			consumers: []interest{{filters: []string{"kyma.shop.a"}, held: 3}, {filters: []string{"kyma.shop.b"}, held: 5}},
			want:      []purge{{"kyma.shop.b.c", 90}},
		},
		"one token":        {consumers: []interest{{filters: []string{"kyma.*.a", "kyma.shop.*.c"}, held: 10}}, want: []purge{{"kyma.shop.b", 90}}},
		"the tail":         {consumers: []interest{{filters: []string{"kyma.shop.b.>"}, held: 7}}, want: []purge{{"kyma.shop.a", 90}, {"kyma.shop.b", 90}}},
		"all of a source":  {consumers: []interest{{filters: []string{"kyma.shop.>"}, held: 15}}},
		"all by > alone":   {consumers: []interest{{filters: []string{">"}, held: 15}}},
		"all by no filter": {consumers: []interest{{held: 15}}},
		"a filter is no prefix": {
			consumers: []interest{{filters: []string{"kyma.shop"}}, {filters: []string{"kyma.shop.a.>"}}, {filters: []string{"kyma.shop.*.*", "kyma.shop.b"}, held: 12}},
			want:      []purge{{"kyma.shop.a", 90}},
		},
		"what all have settled stays unless it is asked for": {
			consumers: []interest{{settled: 50, held: 1}},
		},
		"what all have settled": {
			consumers: []interest{{filters: []string{"kyma.shop.>"}, settled: 50, held: 1}, {filters: []string{"kyma.shop.a"}, settled: 40}},
			partly:    true,
			want:      []purge{{"kyma.shop.a", 40}, {"kyma.shop.b", 50}, {"kyma.shop.b.c", 50}},
		},
		"one still wants all that it has": {
			consumers: []interest{{filters: []string{"kyma.shop.>"}, settled: 50, held: 1}, {filters: []string{"kyma.shop.b"}, settled: 50, held: 5}},
			partly:    true,
			want:      []purge{{"kyma.shop.a", 50}, {"kyma.shop.b.c", 50}},
		},
		"what was settled is gone already": {
			consumers: []interest{{settled: 9, held: 1}},
			partly:    true,
		},
		"a consumer that starts in the future": {
			consumers: []interest{{settled: 1000}},
			partly:    true,
			want:      []purge{{"kyma.shop.a", 90}, {"kyma.shop.b", 90}, {"kyma.shop.b.c", 90}},
		},
		"a consumer that wants all from the start": {
			consumers: []interest{{settled: 50}, {settled: 0, held: 15}},
			partly:    true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := unwanted(has, tc.consumers, tc.partly)
			slices.SortFunc(got, func(a, b purge) int { return slices.Compare([]string{a.subject}, []string{b.subject}) })
			require.Equal(t, tc.want, got)
		})
	}
}

func TestWhatIsUnwantedIsFoundAmongManyFilters(t *testing.T) {
	t.Parallel()
	const many = 5_000
	has := holding{first: 1, last: many, subjects: map[string]uint64{}}
	var consumers []interest
	for i := range many {
		has.subjects[fmt.Sprintf("kyma.shop%d.order.v1", i)] = 1
		consumers = append(consumers, interest{filters: []string{fmt.Sprintf("kyma.shop%d.order.*", i), fmt.Sprintf("kyma.rouse-redelivery.c%d", i)}, held: 1})
	}
	began := time.Now()
	require.Empty(t, unwanted(has, consumers, true))
	require.Len(t, unwanted(has, consumers[1:], true), 1)
	require.Less(t, time.Since(began), 10*time.Second, "each subject is compared with the filters that are like it")
}
