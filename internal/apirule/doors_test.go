package apirule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

var bridges = Target{Service: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-doors"}, Port: 80}

// doorOf is a Door made some seconds after others.
func doorOf(namespace, name, host string, seconds int, change func(*v1alpha1.DoorSpec)) *v1alpha1.Door {
	d := &v1alpha1.Door{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(int64(seconds), 0)),
		},
		Spec: v1alpha1.DoorSpec{Gateway: "kyma-system/kyma-gateway", Host: host, CloudEvents: &v1alpha1.DoorCloudEvents{}},
	}
	change(&d.Spec)
	return d
}

func asItIs(*v1alpha1.DoorSpec) {}

// decideDoors decides about Doors beside APIRules.
func decideDoors(doors []*v1alpha1.Door, rules ...*v2.APIRule) (DoorRules, map[string]Exposure) {
	exposed := ExposeDoors(doors, bridges)
	around := &Objects{
		Gateways: map[types.NamespacedName]Gateway{{Namespace: "kyma-system", Name: "kyma-gateway"}: {Hosts: []string{"*.example.com"}}},
		Services: map[types.NamespacedName]ServiceInfo{{Namespace: "bank", Name: "price"}: {Selects: true, Address: "10.0.0.1", Ports: []int32{80}}},
		Doors:    exposed.Of, DoorService: bridges,
	}
	found := map[string]Exposure{}
	for _, each := range Decide(append(rules, exposed.Rules...), around) {
		found[each.APIRule.Namespace] = each
	}
	return exposed, found
}

func TestTheDoorsOfANamespaceShareAHost(t *testing.T) {
	t.Parallel()
	_, found := decideDoors([]*v1alpha1.Door{
		doorOf("shop", "github", "hooks", 1, func(s *v1alpha1.DoorSpec) { s.Path = "/github" }),
		doorOf("shop", "commerce", "hooks", 2, func(s *v1alpha1.DoorSpec) {
			s.CloudEvents, s.Application, s.ClientCertificates = nil, &v1alpha1.DoorApplication{}, &v1alpha1.DoorClientCertificates{}
		}),
	})
	e := found["shop"]
	require.Empty(t, e.Problems)
	require.Equal(t, "hooks.example.com", e.Host)
	require.True(t, e.AsksCertificates)
	require.Len(t, e.Rules, 5)
	require.Equal(t, Backend{Service: bridges.Service, Port: 80, Door: "shop/github"}, e.Rules[0].Backend)
	require.Equal(t, "/commerce/v1/events/subscribed", e.Rules[4].Spec.Path)
	require.Equal(t, []v2.Method{"GET"}, e.Rules[4].Spec.Methods)
}

func TestADoorGetsNoHostOfAnother(t *testing.T) {
	t.Parallel()
	host := v2.Host("hooks.example.com")
	noAuth, gateway := true, "kyma-system/kyma-gateway"
	rule := func(seconds int) *v2.APIRule {
		return &v2.APIRule{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "price", CreationTimestamp: metav1.NewTime(time.Unix(int64(seconds), 0))},
			Spec: v2.APIRuleSpec{
				Gateway: &gateway, Hosts: []v2.Host{host}, Service: &v2.Service{Name: "price", Port: 80},
				Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: &noAuth}},
			},
		}
	}
	_, found := decideDoors([]*v1alpha1.Door{doorOf("shop", "github", "hooks", 1, asItIs)}, rule(2))
	require.Equal(t, "hooks.example.com", found["shop"].Host)
	require.Empty(t, found["bank"].Host)
	require.Contains(t, found["bank"].Problems.String(), "Host is occupied by another Door of namespace shop")
	_, found = decideDoors([]*v1alpha1.Door{doorOf("shop", "github", "hooks", 2, asItIs)}, rule(1))
	require.Empty(t, found["shop"].Host)
	require.Contains(t, found["shop"].Problems.String(), "Host is occupied by another APIRule bank/price")
	_, found = decideDoors([]*v1alpha1.Door{doorOf("shop", "github", "hooks", 1, asItIs), doorOf("bank", "github", "hooks", 2, asItIs)})
	require.Empty(t, found["bank"].Host)
}

func TestOfTwoDoorsWithOnePathTheOlderHasIt(t *testing.T) {
	t.Parallel()
	exposed, found := decideDoors([]*v1alpha1.Door{
		doorOf("shop", "second", "hooks", 2, asItIs), doorOf("shop", "first", "hooks", 1, asItIs), doorOf("shop", "third", "hooks", 3, func(s *v1alpha1.DoorSpec) { s.Path = "/third" }),
	})
	require.Equal(t, map[types.NamespacedName]string{{Namespace: "shop", Name: "second"}: "first"}, exposed.Taken)
	require.Empty(t, found["shop"].Problems)
	require.Len(t, found["shop"].Rules, 2)
}

func TestATokenOfADoorIsVerifiedAsOfAnAPIRule(t *testing.T) {
	t.Parallel()
	_, found := decideDoors([]*v1alpha1.Door{doorOf("shop", "billing", "hooks", 1, func(s *v1alpha1.DoorSpec) {
		s.JWT = &v1alpha1.DoorJWT{Issuer: "https://issuer.example.com", JWKSURI: "https://issuer.example.com/keys", Audiences: []string{"orders"}}
	})})
	require.Empty(t, found["shop"].Problems)
	require.Equal(t, []string{"orders"}, found["shop"].Rules[0].Spec.JWT.Authorizations[0].Audiences)
	require.Equal(t, []v2.Method{"OPTIONS"}, found["shop"].Rules[1].Spec.Methods)
}

func TestAChangeOfADoorChangesTheGenerationOfItsHost(t *testing.T) {
	t.Parallel()
	first := doorOf("shop", "github", "hooks", 1, asItIs)
	before := ExposeDoors([]*v1alpha1.Door{first}, bridges).Rules[0].Generation
	first.Generation++
	require.NotEqual(t, before, ExposeDoors([]*v1alpha1.Door{first}, bridges).Rules[0].Generation)
}
