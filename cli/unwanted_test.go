package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/event"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
)

func TestPublishOfAnEventWithoutSubscriptionNotesASuggestion(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "publish", "--type", "order.receivd", "--source", "shop", "--id", "1")
	require.Equal(t, ran{0, "1\n", "order.receivd from shop: stored, but no Subscription takes it; did you mean order.received from shop?\n"}, got)
	got = w.run(t, "publish", "--type", "mail.sent", "--source", "shop", "--id", "2", "-o", "name")
	require.Equal(t, ran{0, "2\n", "mail.sent from shop: stored, but no Subscription takes it\n"}, got)

	batch := `[{"id": "a", "type": "order.invoiced"}, {"id": "b", "type": "order.received"}, {"id": "c", "type": "order.invoiced"}]`
	got = w.runWith(t, batch, "publish", "-f", "-", "--source", "shop", "-o", "json")
	require.Equal(t, 0, got.code)
	require.Equal(t, "order.invoiced from shop (2 events): stored, but no Subscription takes it; did you mean order.invoiced from invoicing?\n", got.err)
	var results []event.Result
	require.NoError(t, json.Unmarshal([]byte(got.out), &results))
	require.NotEmpty(t, results[0].Note)
	require.Empty(t, results[1].Note)
}

func TestNotesOfEventsWithoutSubscriptionAreBounded(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	var events []string
	for i := range notedKinds + 2 {
		events = append(events, fmt.Sprintf(`{"type": "nothing.%d", "source": "s"}`, i))
	}
	got := w.runWith(t, "["+strings.Join(events, ",")+"]", "publish", "-f", "-")
	require.Equal(t, 0, got.code)
	require.Equal(t, notedKinds+1, strings.Count(got.err, "\n"))
	require.Contains(t, got.err, "and 2 other kinds of events that no Subscription takes\n")
}

// unlisted is a Rouse whose Subscriptions one may not list.
type unlisted struct{ target.Target }

func (unlisted) Subscriptions(context.Context, string) ([]target.Subscription, error) {
	return nil, exit.Errorf(exit.Unreachable, "you may not list subscriptions")
}

func TestPublishWithoutPermissionToListSubscriptionsHasNoNotes(t *testing.T) {
	t.Parallel()
	results := []event.Result{{ID: "1", Type: "order.receivd", Source: "shop", Status: 204}}
	noteUnwanted(t.Context(), &target.Connection{Target: unlisted{}}, results)
	require.Empty(t, results[0].Note)
}
