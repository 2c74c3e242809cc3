package orders_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func TestTheAPIRuleOfTheShopLetsInOrdersAndReaders(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "samples", "shop", "apirule.yaml"))
	require.NoError(t, err)
	var rule v2.APIRule
	require.NoError(t, yaml.UnmarshalStrict(text, &rule))
	function := apirule.ServiceInfo{Selects: true, Function: true, Address: "10.0.0.1", Ports: []int32{80}}
	exposed := apirule.Decide([]*v2.APIRule{&rule}, &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{{Namespace: "kyma-system", Name: "kyma-gateway"}: {Hosts: []string{"*.example.com"}}},
		Services: map[types.NamespacedName]apirule.ServiceInfo{{Namespace: "orders", Name: "shop"}: function, {Namespace: "orders", Name: "status"}: function},
	})
	require.Len(t, exposed, 1)
	require.Empty(t, exposed[0].Problems)
	require.Equal(t, "orders.example.com", exposed[0].Host)
	require.Len(t, exposed[0].Rules, 2)
	require.Equal(t, "shop", exposed[0].Rules[0].Backend.Service.Name)
	require.Equal(t, "status", exposed[0].Rules[1].Backend.Service.Name)
	require.NotContains(t, exposed[0].Rules[1].Spec.Methods, v2.Method("POST"), "nobody from outside may send events to the page")
}
