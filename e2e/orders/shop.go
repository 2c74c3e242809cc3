package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/verbs"
)

// Call is a customer's request: GET without a body, and POST of JSON with one. It fails with the status of an answer from 400 on.
type Call func(ctx context.Context, function, path, body string) (answer []byte, err error)

// CallByInvoke is what an operator does, without an APIRule.
func CallByInvoke(r verbs.Rouse) Call {
	return func(ctx context.Context, function, path, body string) ([]byte, error) {
		args := []string{"invoke", namespace + "/" + function, "--path", path}
		if body != "" {
			args = append(args, "-d", body)
		}
		return r.Run(ctx, args...)
	}
}

// ProveShop orders by HTTP and reads the pages of the orders. Their ids begin with prefix. Status stays awake for as long as it
// remembers, so that only the others are seen to sleep.
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

// order posts an order, and requires the answer to name its page.
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

// awaitPage reads the page of an order until it has all parts. It is not known at first.
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

// requireHops looks at the trace of an order: each event went to the next Function of the chain, and to the page.
func requireHops(t *testing.T, r verbs.Rouse, order string) {
	t.Helper()
	out, err := r.Run(t.Context(), "trace", order+".received", "--wait", "2m")
	require.NoError(t, err)
	for _, function := range []string{"pricing", "invoicing", "recorder"} {
		require.Contains(t, string(out), namespace+"/"+function+": delivered")
	}
	require.Equal(t, 3, strings.Count(string(out), namespace+"/status: delivered"), string(out))
}
