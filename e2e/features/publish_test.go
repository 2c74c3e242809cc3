//go:build e2e

package features

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/framework"
)

const publishers = 16 // connections that publish at the same time

func publishAll(ctx context.Context, cluster *framework.Cluster, eventType string, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	for _, key := range keys {
		group.Go(func() error {
			return cluster.Publish(ctx, framework.Event{ID: key, Type: eventType, Data: map[string]string{"key": key}})
		})
	}
	return group.Wait()
}

func TestABadEventIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	cluster, _ := connect(t)
	ok := http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Source": {"e2e"}, "Ce-Id": {"1"}, "Ce-Type": {"order.received.v1"},
		"Content-Type": {"application/json"},
	}
	with := func(key, value string) http.Header {
		header := ok.Clone()
		header.Set(key, value)
		return header
	}
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		want   string
	}{
		"no event at all":            {header: http.Header{"Content-Type": {"application/json"}}, body: "{}", want: "unknown Message encoding"},
		"an event without a type":    {header: with("Ce-Type", ""), body: "{}", want: "type"},
		"a type with empty segments": {header: with("Ce-Type", "order..v1"), body: "{}", want: "event type cannot have empty segments after cleaning"},
		"more than 64 KiB":           {header: ok, body: `"` + strings.Repeat("x", 70_000) + `"`, want: "request body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer, err := cluster.Request(t.Context(), http.MethodPost, framework.System, "rouse-eventbridge", "publish", tc.header, []byte(tc.body))
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, status, answer)
			require.Contains(t, answer, tc.want)
		})
	}
}

func TestAnEventWithoutASubscriptionIsAccepted(t *testing.T) {
	t.Parallel()
	cluster, _ := connect(t)
	event := framework.Event{ID: "stray", Type: "without.subscription.v1", Data: map[string]string{}}
	require.NoError(t, cluster.Publish(t.Context(), event), event.Type)
}
