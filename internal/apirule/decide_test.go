package apirule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

var (
	kymaGateway = types.NamespacedName{Namespace: "kyma-system", Name: "kyma-gateway"}
	price       = types.NamespacedName{Namespace: "shop", Name: "price"}
	stock       = types.NamespacedName{Namespace: "warehouse", Name: "stock"}
)

// surroundings returns a cluster with one gateway, Service price of the namespace shop and Service stock of another.
func surroundings(changes ...func(*Objects)) *Objects {
	cluster := &Objects{
		Gateways: map[types.NamespacedName]Gateway{kymaGateway: {Hosts: []string{"*.example.com"}}},
		Services: map[types.NamespacedName]ServiceInfo{
			price: {Selects: true, Address: "10.0.0.1", Ports: []int32{80, 8080}},
			stock: {Selects: true, Address: "10.0.0.2", Ports: []int32{80}},
		},
		Authorizers: []string{"sessions"},
	}
	for _, change := range changes {
		change(cluster)
	}
	return cluster
}

// rule returns an APIRule of the namespace shop, created at the given second, that exposes price at a host.
func rule(name string, second int64, host v2.Host, changes ...func(*v2.APIRule)) *v2.APIRule {
	r := &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.Unix(second, 0),
		},
		Spec: v2.APIRuleSpec{
			Hosts: []v2.Host{host}, Gateway: new(kymaGateway.String()), Service: &v2.Service{Name: "price", Port: 80},
			Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func to(service v2.Service) func(*v2.APIRule) {
	return func(r *v2.APIRule) { r.Spec.Service = &service }
}

func deleted(r *v2.APIRule) { r.DeletionTimestamp = new(metav1.NewTime(time.Unix(100, 0))) }

// mistaken gives an APIRule a path that the CRD would reject.
func mistaken(r *v2.APIRule) { r.Spec.Rules[0].Path = "/{**}/{**}" }

// hosts returns the host of each APIRule that is served.
func hosts(exposures []Exposure) map[string]string {
	found := map[string]string{}
	for i := range exposures {
		found[exposures[i].APIRule.Name] = exposures[i].Host
	}
	return found
}

func service(changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", Selector: map[string]string{"app": "price"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func ownedBy(kind, name, group string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: group + "/v1alpha2", Kind: kind, Name: name, UID: "uid", Controller: new(true)}}
	}
}

var functions = v1alpha2.GroupVersion.Group

func TestExposureOfAValidAPIRuleHoldsTheBackendsOfItsRules(t *testing.T) {
	t.Parallel()
	written := rule("price", 1, "price", func(r *v2.APIRule) {
		r.Spec.CORSPolicy = &v2.CORSPolicy{AllowMethods: []string{"GET"}}
		r.Spec.Rules = append(r.Spec.Rules, v2.Rule{
			Path: "/admin", Methods: []v2.Method{"POST"}, NoAuth: new(true), Service: &v2.Service{Name: "price", Port: 8080},
		})
	})
	cluster := surroundings(func(c *Objects) {
		c.Services[price] = ServiceInfo{Selects: true, Wakes: true, Address: "10.0.0.1", Ports: []int32{80, 8080}}
	})
	require.Equal(t, []Exposure{{
		APIRule: price, UID: "uid-price", Generation: 1, Gateway: kymaGateway, Host: "price.example.com", CORS: written.Spec.CORSPolicy,
		Rules: []Rule{
			{Spec: &written.Spec.Rules[0], Timeout: 180 * time.Second, Backend: Backend{Service: price, Port: 80, Address: "10.0.0.1", Wakes: true}},
			{Spec: &written.Spec.Rules[1], Timeout: 180 * time.Second, Backend: Backend{Service: price, Port: 8080, Address: "10.0.0.1", Wakes: true}},
		},
	}}, Decide([]*v2.APIRule{written}, cluster))
}

func TestAHostBelongsToTheOldestAPIRule(t *testing.T) {
	t.Parallel()
	const taken = "price.example.com"
	for name, tc := range map[string]struct {
		rules []*v2.APIRule
		want  map[string]string
		owner string // the APIRule that gets the host
	}{
		"the older APIRule keeps it": {
			[]*v2.APIRule{rule("late", 2, taken), rule("early", 1, taken)}, map[string]string{"early": taken, "late": ""}, "shop/early",
		},
		"APIRules of the same second are ordered by name": {
			[]*v2.APIRule{rule("b", 1, taken), rule("a", 1, taken)}, map[string]string{"a": taken, "b": ""}, "shop/a",
		},
		"a short host equals its full name": {
			[]*v2.APIRule{rule("late", 2, taken), rule("early", 1, "price")}, map[string]string{"early": taken, "late": ""}, "shop/early",
		},
		"an APIRule that is being deleted frees its host": {
			[]*v2.APIRule{rule("late", 2, taken), rule("early", 1, taken, deleted)}, map[string]string{"late": taken}, "",
		},
		"a mistaken edit does not free the host": {
			[]*v2.APIRule{rule("late", 2, taken), rule("early", 1, taken, mistaken)}, map[string]string{"early": "", "late": ""}, "shop/early",
		},
		"a wildcard does not take the hosts under it": {
			[]*v2.APIRule{rule("late", 2, taken), rule("early", 1, "*.example.com")}, map[string]string{"early": "*.example.com", "late": taken}, "",
		},
		"a wildcard has one owner, too": {
			[]*v2.APIRule{rule("late", 2, "*.example.com"), rule("early", 1, "*.example.com")},
			map[string]string{"early": "*.example.com", "late": ""},
			"shop/early",
		},
		"an APIRule without a valid host reserves no host": {
			[]*v2.APIRule{rule("late", 2, "no_host"), rule("early", 1, "no_host")}, map[string]string{"early": "", "late": ""}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exposures := Decide(tc.rules, surroundings())
			require.Equal(t, tc.want, hosts(exposures))
			if tc.owner != "" {
				require.Contains(t, exposures[len(exposures)-1].Problems, Problem{
					Attribute: ".spec.hosts[0]", Message: "Host is occupied by another APIRule " + tc.owner,
				})
			}
		})
	}
}

func TestMissingObjectOfARuleClosesOnlyThatRule(t *testing.T) {
	t.Parallel()
	const closed = ".spec.rules[0]"
	for name, tc := range map[string]struct {
		change    func(*Objects)
		rule      func(*v2.APIRule)
		attribute string
		message   string
	}{
		"a missing Service": {
			func(c *Objects) { delete(c.Services, price) }, nil, closed, "Target service shop/price not found",
		},
		"a Service without a selector": {
			func(c *Objects) { c.Services[price] = ServiceInfo{Address: "10.0.0.1", Ports: []int32{80}} }, nil,
			closed, "Target service label selectors are not defined",
		},
		"a headless Service": {
			func(c *Objects) { c.Services[price] = ServiceInfo{Selects: true, Ports: []int32{80}} }, nil,
			closed + ".service", "Service shop/price has no cluster IP: remove clusterIP: None",
		},
		"a port that the Service lacks": {
			nil, to(v2.Service{Name: "price", Port: 81}), closed + ".service", "Service shop/price has no TCP port 81",
		},
		"a missing authorizer": {
			nil, func(r *v2.APIRule) {
				r.Spec.Rules[0].NoAuth, r.Spec.Rules[0].ExtAuth = nil, &v2.ExtAuth{Authorizers: []string{"nobody"}}
			}, closed + ".extAuth.externalAuthorizers.nobody", "Authorizer not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := surroundings(func(c *Objects) {
				c.Services[types.NamespacedName{Namespace: "shop", Name: "other"}] = ServiceInfo{Selects: true, Address: "10.0.0.3", Ports: []int32{80}}
				if tc.change != nil {
					tc.change(c)
				}
			})
			r := rule("price", 1, "price.example.com")
			if tc.rule != nil {
				tc.rule(r)
			}
			r.Spec.Rules = append(r.Spec.Rules, v2.Rule{
				Path: "/other", Methods: []v2.Method{"POST"}, NoAuth: new(true), Service: &v2.Service{Name: "other", Port: 80},
			})
			e := Decide([]*v2.APIRule{r}, cluster)[0]
			require.Equal(t, "price.example.com", e.Host)
			require.Equal(t, Problems{{Attribute: tc.attribute, Message: tc.message, Closes: RuleAt(0)}}, e.Problems)
			require.True(t, e.Rules[0].Closed)
			require.Zero(t, e.Rules[0].Backend, "a closed rule leads nowhere")
			require.False(t, e.Rules[1].Closed)
			require.Equal(t, "10.0.0.3", e.Rules[1].Backend.Address)
		})
	}
}

func TestAnAliasLeadsToThePodsOfItsTargetAlone(t *testing.T) {
	t.Parallel()
	bridge := types.NamespacedName{Namespace: "rouse-system", Name: "rouse-eventbridge"}
	around := func(from ...string) *Objects {
		cluster := surroundings(func(c *Objects) {
			c.Services[bridge] = ServiceInfo{Selects: true, Address: "10.0.0.9", Ports: []int32{80}}
			c.Services[stock] = ServiceInfo{Address: "10.0.0.2", Ports: []int32{80}, From: from} // without a selector
		})
		cluster.SetAlias(stock, bridge)
		return cluster
	}
	toAlias := to(v2.Service{Name: stock.Name, Namespace: stock.Namespace, Port: 80})
	e := Decide([]*v2.APIRule{rule("price", 1, "price.example.com", toAlias)}, around("shop"))[0]
	require.Empty(t, e.Problems)
	require.Equal(t, Backend{Service: bridge, Port: 80, Address: "10.0.0.9"}, e.Rules[0].Backend)
	e = Decide([]*v2.APIRule{rule("price", 1, "price.example.com", toAlias)}, around())[0]
	require.True(t, e.Rules[0].Closed, "the alias says which namespaces may expose it")
	require.Contains(t, e.Problems.String(), "Service warehouse/stock is not there, or does not allow it")

	missing := surroundings()
	missing.SetAlias(price, bridge)
	require.Equal(t, surroundings().Services, missing.Services, "a target that does not exist leads nowhere else")
}

func TestInvalidSpecClosesTheWholeAPIRule(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v2.APIRule){
		"a path":                    mistaken,
		"no gateway":                func(r *v2.APIRule) { r.Spec.Gateway = nil },
		"a missing gateway":         func(r *v2.APIRule) { r.Spec.Gateway = new("shop/none") },
		"a gateway without a slash": func(r *v2.APIRule) { r.Spec.Gateway = new("none") },
		"no host":                   func(r *v2.APIRule) { r.Spec.Hosts = nil },
		"no rules":                  func(r *v2.APIRule) { r.Spec.Rules = nil },
		"no service":                func(r *v2.APIRule) { r.Spec.Service = nil },
		"nothing":                   func(r *v2.APIRule) { r.Spec = v2.APIRuleSpec{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Decide([]*v2.APIRule{rule("price", 1, "price.example.com", change)}, surroundings())[0]
			require.NotEmpty(t, e.Problems)
			require.Empty(t, e.Host)
			require.Empty(t, e.Rules)
		})
	}
}

func TestServiceOfAnotherNamespaceMustAdmitTheAPIRulesNamespace(t *testing.T) {
	t.Parallel()
	across := []*v2.APIRule{rule("stock", 1, "stock.example.com", to(v2.Service{Name: "stock", Namespace: "warehouse", Port: 80}))}
	refused := func(change func(*Objects)) Problems {
		e := Decide(across, surroundings(change))[0]
		require.True(t, e.Rules[0].Closed)
		return e.Problems
	}
	missing := refused(func(c *Objects) { delete(c.Services, stock) })
	require.Equal(t, Problems{{
		Attribute: ".spec.rules[0].service", Closes: RuleAt(0),
		Message: "Service warehouse/stock is not there, or does not allow it: it needs the annotation rouse.run/apirules-from: shop",
	}}, missing)
	for name, there := range map[string]ServiceInfo{
		"without an annotation": {Selects: true, Address: "10.0.0.2", Ports: []int32{80}},
		"for others":            {Selects: true, Address: "10.0.0.2", Ports: []int32{80}, From: []string{"office", "shopping"}},
		"without a selector":    {Address: "10.0.0.2", Ports: []int32{80}},
		"without an address":    {Selects: true, Ports: []int32{80}},
		"without the port":      {Selects: true, Address: "10.0.0.2"},
		"of a Function":         {Selects: true, Address: "10.0.0.2", Ports: []int32{80}, Wakes: true},
	} {
		require.Equal(t, missing, refused(func(c *Objects) { c.Services[stock] = there }), "a Service %s must be reported as a missing one is", name)
	}
	for _, from := range []string{"shop", "*"} {
		e := Decide(across, surroundings(func(c *Objects) {
			c.Services[stock] = ServiceInfo{Selects: true, Address: "10.0.0.2", Ports: []int32{80}, From: []string{"office", from}}
		}))[0]
		require.Empty(t, e.Problems)
		require.Equal(t, Backend{Service: stock, Port: 80, Address: "10.0.0.2"}, e.Rules[0].Backend)
	}
}

func TestTimeoutOfARuleOverridesThatOfTheSpec(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec, rule *v2.Timeout
		want       time.Duration
	}{
		"none":     {nil, nil, 3 * time.Minute},
		"the spec": {new(v2.Timeout(10)), nil, 10 * time.Second},
		"the rule": {nil, new(v2.Timeout(20)), 20 * time.Second},
		"both":     {new(v2.Timeout(10)), new(v2.Timeout(3900)), 65 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rule("price", 1, "price.example.com")
			r.Spec.Timeout, r.Spec.Rules[0].Timeout = tc.spec, tc.rule
			require.Equal(t, tc.want, Decide([]*v2.APIRule{r}, surroundings())[0].Rules[0].Timeout)
		})
	}
}

func TestDecisionDoesNotDependOnTheOrderOfAPIRules(t *testing.T) {
	t.Parallel()
	var rules []*v2.APIRule
	for i := range 20 {
		rules = append(rules, rule(fmt.Sprintf("r%02d", i), int64(i%3), v2.Host(fmt.Sprintf("h%d.example.com", i%5))))
	}
	want := Decide(rules, surroundings())
	slices.Reverse(rules)
	given := slices.Clone(rules)
	require.Equal(t, want, Decide(rules, surroundings()))
	require.Equal(t, given, rules, "the caller's slice must stay unchanged")
}

func TestDeciderValidatesAgainAfterAChange(t *testing.T) {
	t.Parallel()
	var decider Decider
	steps := []struct {
		name    string
		rules   []*v2.APIRule
		cluster *Objects
	}{
		{"at first", []*v2.APIRule{rule("a", 1, "a"), rule("b", 2, "a.example.com")}, surroundings()},
		{"nothing", []*v2.APIRule{rule("a", 1, "a"), rule("b", 2, "a.example.com")}, surroundings()},
		{"the spec", []*v2.APIRule{rule("a", 1, "a", mistaken, func(r *v2.APIRule) { r.Generation++ })}, surroundings()},
		{"the object", []*v2.APIRule{rule("a", 1, "a", func(r *v2.APIRule) { r.UID, r.Generation = "new", 2 })}, surroundings()},
		{"the Service", []*v2.APIRule{rule("a", 1, "a")}, surroundings(func(c *Objects) { delete(c.Services, price) })},
		{"the gateway", []*v2.APIRule{rule("a", 1, "a")}, surroundings(func(c *Objects) { c.Gateways = nil })},
		{"the owner of the host", []*v2.APIRule{rule("0", 0, "a"), rule("a", 1, "a")}, surroundings()},
		{"that it is free", []*v2.APIRule{rule("a", 1, "a")}, surroundings()},
		{"the authorizers", []*v2.APIRule{rule("a", 1, "a")}, surroundings(func(c *Objects) { c.Authorizers = nil })},
	}
	for _, step := range steps {
		require.Equal(t, Decide(step.rules, step.cluster), decider.Decide(step.rules, step.cluster), step.name)
		require.Len(t, decider.validations, len(step.rules), "validations of deleted APIRules are dropped")
	}
}

// 10,000 hosts have to be decided within seconds, and a tenant with the largest APIRules must not delay others at each
// change.
func TestTenThousandAPIRulesAreDecidedAndValidatedOnce(t *testing.T) {
	t.Parallel()
	rules := make([]*v2.APIRule, 10_000)
	for i := range rules {
		rules[i] = rule(fmt.Sprintf("r%d", i), int64(i), v2.Host(fmt.Sprintf("h%d.example.com", i)))
	}
	var decider Decider
	first := decider.Decide(rules, surroundings())
	require.Len(t, first, len(rules))
	for i := range first {
		require.Empty(t, first[i].Problems)
	}
	// Validating again would report this.
	rules[7].Spec.Rules[0].Path = "/{**}/{**}"
	require.Equal(t, first, decider.Decide(rules, surroundings()))
}

func TestStatusDescriptionListsThreeProblems(t *testing.T) {
	t.Parallel()
	all := Problems{{Attribute: ".spec.a", Message: "one"}, {Attribute: ".spec.b", Message: "two"}, {Attribute: ".spec.c", Message: "three"}, {Attribute: ".spec.d", Message: "four"}, {Attribute: ".spec.e", Message: "five"}}
	require.Equal(t, "Reconciled successfully", all[:0].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one", all[:1].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three", all[:3].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three\n1 more error(s)...",
		all[:4].Description())
	require.Equal(t, "Validation errors: Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three\n2 more error(s)...",
		all.Description())
}

func TestLogTextListsAllProblems(t *testing.T) {
	t.Parallel()
	all := Problems{{Attribute: ".spec.a", Message: "one"}, {Attribute: ".spec.b", Message: "two"}, {Attribute: ".spec.c", Message: "three"}, {Attribute: ".spec.d", Message: "four"}}
	require.Equal(t, "Attribute '.spec.a': one\nAttribute '.spec.b': two\nAttribute '.spec.c': three\nAttribute '.spec.d': four", all.String())
	require.Empty(t, Problems{}.String())
}
