package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
