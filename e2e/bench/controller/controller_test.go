package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallsAreCountedByWhatTheyDo(t *testing.T) {
	t.Parallel()
	counted := calls{}
	require.NoError(t, counted.add([]byte(`{"verb":"patch","requestURI":"/x","objectRef":{"resource":"functions","subresource":"status"}}
{"verb":"patch","requestURI":"/x","objectRef":{"resource":"functions","subresource":"status"}}
{"verb":"update","requestURI":"/x","objectRef":{"resource":"leases"}}
{"verb":"create","requestURI":"/x","objectRef":{"resource":"events"}}
{"verb":"get","requestURI":"/apis?timeout=5s"}
`)))
	require.Equal(t, calls{"patch functions/status": 2, "update leases": 1, "create events": 1, "get /apis": 1}, counted)
	require.Equal(t, 5, counted.total())
	require.Equal(t, 2, counted.writes())
	require.Equal(t, calls{"patch functions/status": 1}, counted.since(calls{"patch functions/status": 1, "update leases": 1, "create events": 1, "get /apis": 1}))
	require.Equal(t, "2 patch functions/status, 1 create events, 1 get /apis, 1 update leases", counted.String())
	require.Error(t, counted.add([]byte("{\n")))
}

func TestWorkIsReadFromMetrics(t *testing.T) {
	t.Parallel()
	w, err := workOf([]byte(`# TYPE workqueue_depth gauge
controller_runtime_active_workers{controller="function"} 4
controller_runtime_reconcile_total{controller="function",result="error"} 2
controller_runtime_reconcile_total{controller="function",result="success"} 1e+03
controller_runtime_reconcile_total{controller="subscription",result="success"} 7
go_goroutines 93
workqueue_depth{controller="function",name="function",priority=""} 12
`))
	require.NoError(t, err)
	require.Equal(t, work{reconciled: map[string]int{"function": 1002, "subscription": 7}, open: 16}, w)
	_, err = workOf([]byte(`workqueue_depth{controller="function"} many` + "\n"))
	require.Error(t, err)
}
