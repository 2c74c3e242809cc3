package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/verbs"
)

// Call sends a customer's request: GET without a body, and POST of JSON with one. It returns an error for a status from
// 400 on.
type Call func(ctx context.Context, function, path, body string) (answer []byte, err error)

// CallByInvoke calls like an operator, without an APIRule.
func CallByInvoke(r verbs.Rouse) Call {
	return func(ctx context.Context, function, path, body string) ([]byte, error) {
		args := []string{"invoke", namespace + "/" + function, "--path", path}
		if body != "" {
			args = append(args, "-d", body)
		}
		return r.Run(ctx, args...)
	}
}

// ProveShop places orders over HTTP and reads their pages. Order ids begin with prefix. The Function status stays awake
// as long as it holds data, so that only the others are expected to sleep.
func ProveShop(t *testing.T, r verbs.Rouse, call Call, prefix string) {
	t.Helper()
	good, bad := prefix+"-tea", prefix+"-unicorn"
	_, err := call(t.Context(), "status", "/orders/"+good, "")
	require.ErrorContains(t, err, "404", "an order that is none has no page")

	order(t, call, good, "tea")
	awaitPage(t, call, good, "Order "+good+": invoiced", "<td>tea</td><td>2</td><td>5.60 €</td>", "as INV-"+good+": 6.66 € with tax")
	requireHops(t, r, good)

	order(t, call, bad, "unicorn")
	awaitPage(t, call, bad, "Order "+bad+": refused", "unknown product &quot;unicorn&quot;")
	requireDeadLetter(t, r, bad)

	_, err = call(t.Context(), "shop", "/orders", `{"lines": []}`)
	require.ErrorContains(t, err, "400", "what is no order is refused by the entrance")
}

// order posts an order, and requires the response to contain the URL of its page.
func order(t *testing.T, call Call, id, product string) {
	t.Helper()
	body := fmt.Sprintf(`{"id": %q, "lines": [{"product": %q, "quantity": 2}]}`, id, product)
	out, err := call(t.Context(), "shop", "/orders", body)
	require.NoError(t, err)
	var answer struct{ Order, Event, Status string }
	require.NoError(t, json.Unmarshal(out, &answer), string(out))
	require.Equal(t, id, answer.Order)
	require.Equal(t, id+".received", answer.Event)
	require.Equal(t, "/orders/"+id, answer.Status)
}

// awaitPage reads the page of an order, which does not exist at first, until it contains all parts.
func awaitPage(t *testing.T, call Call, id string, parts ...string) {
	t.Helper()
	await(t, "the page of "+id, func() (bool, error) {
		page, err := call(t.Context(), "status", "/orders/"+id, "")
		for _, part := range parts {
			if err == nil && !strings.Contains(string(page), part) {
				err = fmt.Errorf("there is no %q in %s", part, page)
			}
		}
		return err == nil, err
	})
}

// requireHops checks the trace of an order: each event went to the next Function of the chain, and to the page.
func requireHops(t *testing.T, r verbs.Rouse, order string) {
	t.Helper()
	out, err := r.Run(t.Context(), "trace", order+".received", "--wait", "2m")
	require.NoError(t, err)
	for _, function := range []string{"pricing", "invoicing", "recorder"} {
		require.Contains(t, string(out), namespace+"/"+function+": delivered")
	}
	require.Equal(t, 3, strings.Count(string(out), namespace+"/status: delivered"), string(out))
}

const (
	namespace = "orders"
	bound     = 4 * time.Minute // of each step, on a machine that is ten times slower
)

// Prove runs the chain with orders whose ids begin with prefix. folder is the folder of the sample.
func Prove(t *testing.T, r verbs.Rouse, folder, prefix string) {
	t.Helper()
	awaitAsleep(t, r)
	recorded := make(chan error, 1)
	good := prefix + "-good"
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	go func() { recorded <- awaitInvoice(ctx, r, good) }()

	publish(t, r, filepath.Join(folder, "events", "order-received.json"), "order-1001", good)
	require.NoError(t, <-recorded)
	requireChain(t, r, good)
	awaitAsleep(t, r)

	bad := prefix + "-bad"
	publish(t, r, filepath.Join(folder, "events", "order-unknown-product.json"), "order-1002", bad)
	requireDeadLetter(t, r, bad)
	awaitAsleep(t, r)
}

// publish publishes a file of the sample for the given order.
func publish(t *testing.T, r verbs.Rouse, file, order, as string) {
	t.Helper()
	event, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(event), order)
	own := filepath.Join(t.TempDir(), "event.json")
	require.NoError(t, os.WriteFile(own, []byte(strings.ReplaceAll(string(event), order, as)), 0o600))
	_, err = r.Run(t.Context(), "publish", "--data-file", own)
	require.NoError(t, err)
}

// awaitInvoice waits until the recorder has recorded the invoice of an order, with the right amounts.
func awaitInvoice(ctx context.Context, r verbs.Rouse, order string) error {
	return r.Follow(ctx, func(line []byte) bool {
		var logged struct{ Text string }
		var record struct {
			Order, Invoice  string
			Net, Tax, Gross int
		}
		if json.Unmarshal(line, &logged) != nil || json.Unmarshal([]byte(logged.Text), &record) != nil || record.Order != order {
			return false
		}
		return record.Invoice == "INV-"+order && record.Net == 1120 && record.Tax == 213 && record.Gross == 1333
	}, "logs", "--follow", namespace+"/recorder", "-o", "json")
}

// hop is an event of the chain in a trace.
type hop struct {
	ID         string
	Type       string
	Deliveries []struct {
		Subscription string
		State        string
		Reason       string
		Children     []hop
	}
	Children []hop
}

// requireChain checks the trace from the order to its record.
func requireChain(t *testing.T, r verbs.Rouse, order string) {
	t.Helper()
	var at hop
	require.NoError(t, r.Read(t.Context(), &at, "trace", order+".received", "--wait", "2m"))
	for i, want := range []struct{ ending, kind, subscription string }{
		{".received", "order.received", "pricing"}, {".priced", "order.priced", "invoicing"}, {".invoiced", "order.invoiced", "recorder"},
	} {
		require.Equal(t, order+want.ending, at.ID)
		require.Equal(t, want.kind, at.Type)
		require.Len(t, at.Deliveries, 1, "%+v", at)
		require.Equal(t, want.subscription, at.Deliveries[0].Subscription)
		require.Equal(t, "delivered", at.Deliveries[0].State)
		next := slices.Concat(at.Children, at.Deliveries[0].Children)
		if i == 2 {
			require.Empty(t, next, "the record is the end of the chain")
			return
		}
		require.Len(t, next, 1, "%+v", at)
		at = next[0]
	}
}

// requireDeadLetter finds the event of an order with an unknown product among the dead letters, with the handler's
// reason, and purges it.
func requireDeadLetter(t *testing.T, r verbs.Rouse, order string) {
	t.Helper()
	var deadLetters []struct {
		Sequence                  uint64
		ID, Subscription, Excerpt string
		Status, Attempts          int
	}
	await(t, "a dead letter of "+order, func() (bool, error) {
		err := r.Read(t.Context(), &deadLetters, "dlq", "list", "--subscription", "pricing", "--namespace", namespace)
		for len(deadLetters) > 0 && deadLetters[0].ID != order+".received" {
			deadLetters = deadLetters[1:]
		}
		return len(deadLetters) > 0, err
	})
	require.Equal(t, 400, deadLetters[0].Status)
	require.Equal(t, 1, deadLetters[0].Attempts, "an event whose retries cannot succeed is tried once")
	require.Contains(t, deadLetters[0].Excerpt, `unknown product`)
	_, err := r.Run(t.Context(), "dlq", "purge", strconv.FormatUint(deadLetters[0].Sequence, 10), "--yes", "--namespace", namespace)
	require.NoError(t, err)
}

// awaitAsleep waits until no Function of the chain has a replica or a backlog.
func awaitAsleep(t *testing.T, r verbs.Rouse) {
	t.Helper()
	await(t, "all three Functions to sleep", func() (bool, error) {
		var functions []struct {
			Name           string
			Desired, Ready int
			Backlog        *int64
		}
		err := r.Read(t.Context(), &functions, "functions", "--namespace", namespace)
		asleep := 0
		for _, f := range functions {
			if f.Desired == 0 && f.Ready == 0 && (f.Backlog == nil || *f.Backlog == 0) {
				asleep++
			}
		}
		return asleep == 3 && len(functions) == 3, err
	})
}

// await polls until done returns true.
func await(t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		ok, err := done()
		if ok && err == nil {
			return
		}
		last = err
	}
	require.FailNow(t, "waited too long for "+what, "last error: %v", last)
}
