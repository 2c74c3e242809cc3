package target

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/instance"
)

func TestLocalModeSaysWhereAPIRulesLeadToAFunction(t *testing.T) {
	t.Parallel()
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"functions": [
			{"namespace": "orders", "name": "shop", "url": "http://127.0.0.1:8081", "exposed": ["http://orders.localhost:8070/orders"]},
			{"namespace": "orders", "name": "pricing", "url": "http://127.0.0.1:8082"},
			{"namespace": "other", "name": "shop", "exposed": ["http://other.localhost:8070/"]}]}`)
	}))
	l := newLocal(instance.Instance{Control: control.URL})
	shop := types.NamespacedName{Namespace: "orders", Name: "shop"}
	exposed := l.Exposed(t.Context(), "orders")
	require.Equal(t, []string{"http://orders.localhost:8070/orders"}, exposed[shop])
	require.Empty(t, exposed[types.NamespacedName{Namespace: "orders", Name: "pricing"}])
	require.NotContains(t, exposed, types.NamespacedName{Namespace: "other", Name: "shop"})
	require.Len(t, l.Exposed(t.Context(), "")[types.NamespacedName{Namespace: "other", Name: "shop"}], 1)

	require.NoError(t, l.Close())
	control.Close()
	require.Empty(t, l.Exposed(t.Context(), ""), "what is gone exposes nothing, and that is no error")
}
