package subscription

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestEachSweepShowsTheBacklogsOfOurConsumers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := newMetrics(registry)
	consumer := func(name string, pending, ackPending uint64) broker.Consumer {
		return broker.Consumer{
			Name:     routing.ConsumerName("shop", name),
			Metadata: map[string]string{metadataNamespace: "shop", metadataName: name},
			Backlog:  broker.Backlog{Pending: pending, AckPending: ackPending},
		}
	}
	m.show([]broker.Consumer{consumer("orders", 5, 2), consumer("prices", 0, 0), {Name: "a-stranger", Backlog: broker.Backlog{Pending: 9}}})
	const head = "# HELP rouse_controller_backlog_events Events that wait for a Subscription's sink or are being delivered, as of the last sweep.\n" +
		"# TYPE rouse_controller_backlog_events gauge\n"
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(head+
		`rouse_controller_backlog_events{namespace="shop",subscription="orders"} 7
rouse_controller_backlog_events{namespace="shop",subscription="prices"} 0
`)))
	m.show([]broker.Consumer{consumer("prices", 1, 0)})
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(head+
		`rouse_controller_backlog_events{namespace="shop",subscription="prices"} 1
`)))
}
