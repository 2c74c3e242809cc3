package ingress

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

func of(name, source string) *cloudevent.Event { return &cloudevent.Event{Type: name, Source: source} }

func TestEventTypeSeriesAreBounded(t *testing.T) {
	t.Parallel()
	p := newPublished(2)
	for _, ev := range []*cloudevent.Event{
		of("\xff", "shop"), of(strings.Repeat("x", 257), "shop"), of("x", strings.Repeat("x", 257)),
		of("a", "shop"), of("a", "depot"), of("a", "shop"), of("b", "shop"), of("b", "shop"), of("a", "depot"),
	} {
		p.count(ev)
	}
	require.NoError(t, testutil.CollectAndCompare(p.events, strings.NewReader(`
# HELP eventing_epp_event_type_published_total Stored events by type and source; those beyond a number of both are other.
# TYPE eventing_epp_event_type_published_total counter
eventing_epp_event_type_published_total{code="204",event_source="depot",event_type="a"} 2
eventing_epp_event_type_published_total{code="204",event_source="shop",event_type="a"} 2
eventing_epp_event_type_published_total{code="204",event_source="other",event_type="other"} 5
`)))
}

func TestTypesAreCountedByManyAtATime(t *testing.T) {
	t.Parallel()
	p := newPublished(50)
	var publishers sync.WaitGroup
	for range 8 {
		publishers.Go(func() {
			for i := range 400 {
				p.count(of("t"+strconv.Itoa(i%100), "shop"))
			}
		})
	}
	publishers.Wait()
	series := make(chan prometheus.Metric, 1000)
	p.events.Collect(series)
	require.Len(t, series, 51)
	require.InDelta(t, 8*200, testutil.ToFloat64(p.rest), 0)
}

func TestATypeThatIsKnownCostsNoMemory(t *testing.T) {
	p := newPublished(2)
	ev := of("a", "shop")
	p.count(ev)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.count(ev) }))
	others := of("b", strings.Repeat("x", 300))
	require.Zero(t, testing.AllocsPerRun(100, func() { p.count(others) }))
}
