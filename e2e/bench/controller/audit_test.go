package main

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
