package migrate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/migration"
)

// moved is a cluster with nothing to do.
func moved() *Survey {
	return &Survey{
		Cluster: "test", Namespace: "rouse-system", Now: time.Unix(1000, 0).UTC(),
		Release: Release{Helm: "rouse", Runs: true, Flags: map[string]string{
			"migration": "rouse-system/rouse-migration", "apirules": "", "publisher-alias": "kyma-system/eventing-publisher-proxy",
			"stream-replicas": "3", "stream-max-bytes": "700Mi", "stream-max-msgs-per-subject": "1000000", "stream-duplicate-window": "2m0s",
		}},
		NATS: target.Kyma{Stream: target.KymaStream{Name: "sap", Replicas: 3, MaxBytes: 700 << 20, MaxMsgsPerSubject: 1_000_000, DropsOldest: true}},
	}
}

func named(kind, name string) Object { return Object{Kind: kind, Namespace: "shop", Name: name} }

// lines are the changes and needs of a plan.
func lines(plan Plan) []string {
	var all []string
	for _, part := range plan.Parts {
		for _, need := range part.Needs {
			all = append(all, "you: "+need)
		}
		for _, item := range part.Items {
			all = append(all, item.String())
		}
	}
	return all
}

func TestTheDeploymentOfKymaGoesWhenThatOfRouseServes(t *testing.T) {
	t.Parallel()
	serving := Workload{Object: named("Deployment", "price"), Desired: 1, Available: 1, Current: true}
	for name, tc := range map[string]struct {
		ours    func(*Workload) *Workload
		problem string
		after   string
	}{
		"it serves":         {func(w *Workload) *Workload { return w }, "", ""},
		"there is none":     {func(*Workload) *Workload { return nil }, "no such image", ", waiting for the Deployment of Rouse to serve it (no such image)"},
		"it starts":         {func(w *Workload) *Workload { w.Available = 0; return w }, "", ", waiting for the Deployment of Rouse to serve it"},
		"it is rolled out":  {func(w *Workload) *Workload { w.Current = false; return w }, "", ", waiting for the Deployment of Rouse to serve it"},
		"it sleeps already": {func(w *Workload) *Workload { w.Desired, w.Available = 0, 0; return w }, "", ", waiting for the Deployment of Rouse to serve it (it sleeps: set scaleConfig.minReplicas to 1 meanwhile)"},
	} {
		s, ours := moved(), serving
		s.Functions = []Function{{
			Object: named("Function", "price"), Ours: tc.ours(&ours), Problem: tc.problem,
			Old:  []Workload{{Object: named("Deployment", "price-x7k2p"), Desired: 1, Available: 1}},
			Rest: []Object{named("Job", "price-build-a")},
		}}
		require.Equal(t, []string{
			"Deployment shop/price-x7k2p is deleted" + tc.after, "Job shop/price-build-a is deleted" + tc.after,
		}, lines(Decide(s)), name)
	}
}

func TestWhatDiffersIsSaidForEachFunction(t *testing.T) {
	t.Parallel()
	s := moved()
	s.Functions = []Function{{
		Object: named("Function", "price"), Scales: true, Override: true,
		Ours: &Workload{Desired: 1, Available: 1, Current: true, Resources: map[string]string{"cpu limit": "400m"}},
		Old:  []Workload{{Object: named("Deployment", "price-x7k2p"), Desired: 2, Resources: map[string]string{"cpu limit": "150m", "cpu request": "50m"}}},
	}}
	var said []string
	for _, difference := range Decide(s).Parts[0].Differences {
		said = append(said, difference.String())
	}
	require.Equal(t, []string{
		"Function shop/price is scaled between minReplicas and maxReplicas of its scaleConfig, which Kyma ignored",
		"Function shop/price has an image of its own, which runs by Kyma's contract: it reports no load, so it is not counted by HTTP",
		"Function shop/price has 1 replicas, and had 2",
		"Function shop/price has cpu limit of 400m, and had 150m",
		"Function shop/price has cpu request of none, and had 50m",
		"dependencies are installed once into an image where the release has a registry; Kyma's pods installed them at each start",
	}, said)
}

func TestTheControllerTakesOverWhenTheReleaseHasTheSettingsOfTheStream(t *testing.T) {
	t.Parallel()
	s := moved()
	s.Subscriptions = []Subscription{
		{Object: named("Subscription", "orders"), Types: 2},
		{Object: named("Subscription", "broken"), Invalid: true, Problem: "sink is empty"},
	}
	s.NATS.Consumers = []target.KymaConsumer{
		{Name: "a", Description: "shop/orders/kyma.shop.a/b", Settled: 7, Pending: 3, AckPending: 1},
		{Name: "b", Description: "shop/broken/kyma.shop.a"},
		{Name: "c", Description: "shop/gone/kyma.shop.a", Pending: 5},
	}
	asks := "ConfigMap rouse-system/rouse-migration requests the takeover of Kyma's consumers"
	rest := []string{
		"Consumer shop/orders/kyma.shop.a/b is replaced by a consumer that starts after sequence 7, with 4 pending events, waiting for the controller of Rouse to take over",
		"Consumer shop/broken/kyma.shop.a stays, waiting for Subscription shop/broken to be valid: sink is empty",
		"Consumer shop/gone/kyma.shop.a is deleted with 5 events: its Subscription does not exist, waiting for the controller of Rouse to take over",
		"Subscription shop/orders gets a consumer, waiting for the controller of Rouse to take over",
	}
	plan := Decide(s)
	require.Equal(t, append([]string{asks}, rest...), lines(plan))
	require.Equal(t, Counts{Subscriptions: 2, Consumers: 3, Pending: 9, Changes: 5}, plan.Counts)

	s.Order = migration.Order{Direction: migration.ToRouse, Abandoned: []string{"c"}}
	require.Equal(t, rest, lines(Decide(s)), "it was asked")
	s.Order.Abandoned = nil
	require.Equal(t, append([]string{asks}, rest...), lines(Decide(s)), "it is to delete one more")

	s.NATS.Stream.Replicas, s.NATS.Stream.MaxBytes = 1, 5
	require.Equal(t, append([]string{
		"you: set the stream settings of the release to those of stream sap, which would be changed otherwise: helm upgrade rouse CHART -n rouse-system --reuse-values --set stream.replicas=1 --set stream.maxBytes=5",
		asks + ", waiting for the release to have the settings of the stream",
	}, rest...), lines(Decide(s)))
}

func TestPublishersAreLedToRouseBeforeKymasGoes(t *testing.T) {
	t.Parallel()
	service := Object{Kind: "Service", Namespace: "kyma-system", Name: "p"}
	proxy := Object{Kind: "Deployment", Namespace: "kyma-system", Name: "p"}
	stale := Object{Kind: "EndpointSlice", Namespace: "kyma-system", Name: "p-a"}
	for name, tc := range map[string]struct {
		publisher Publisher
		without   string // a flag of the release
		want      []string
	}{
		"nothing is there": {Publisher{}, "", nil},
		"as Kyma leaves it": {Publisher{Service: &service, Selects: true, Stale: []Object{stale}, Workload: &proxy}, "publisher-alias", []string{
			"Service kyma-system/p becomes part of the release",
			"Service kyma-system/p is routed to Rouse only, waiting for the endpoints of Rouse to be listed",
			"EndpointSlice kyma-system/p-a is deleted, waiting for the Service to be routed to Rouse only", "Deployment kyma-system/p is deleted, waiting for its endpoints to be deleted",
		}},
		"the release does not serve it": {Publisher{Service: &service, Owned: true, Selects: true}, "publisher-alias", []string{
			"you: enable Kyma's address for publishers in the release: helm upgrade rouse CHART -n rouse-system --reuse-values --set kyma.publisherAlias=true",
			"Service kyma-system/p is routed to Rouse only, waiting for the endpoints of Rouse to be listed",
		}},
		"Rouse is listed": {Publisher{Service: &service, Owned: true, Selects: true, Aliased: true, Stale: []Object{stale}}, "", []string{
			"Service kyma-system/p is routed to Rouse only", "EndpointSlice kyma-system/p-a is deleted, waiting for the Service to be routed to Rouse only",
		}},
		"old addresses are left": {Publisher{Service: &service, Owned: true, Aliased: true, Stale: []Object{stale}, Workload: &proxy}, "", []string{
			"EndpointSlice kyma-system/p-a is deleted", "Deployment kyma-system/p is deleted, waiting for its endpoints to be deleted",
		}},
		"Kyma's is left": {Publisher{Service: &service, Owned: true, Aliased: true, Workload: &proxy}, "", []string{"Deployment kyma-system/p is deleted"}},
	} {
		s := moved()
		s.Publisher = tc.publisher
		delete(s.Release.Flags, tc.without)
		require.Equal(t, tc.want, lines(Decide(s)), name)
	}
}

func TestIstiosObjectsGoWhenRouseServesTheHost(t *testing.T) {
	t.Parallel()
	rest := []Object{named("AuthorizationPolicy", "a"), named("VirtualService", "v")}
	for name, tc := range map[string]struct {
		rule  APIRule
		moved bool
		want  []string
	}{
		"it does not serve it yet": {APIRule{Rest: rest, Problem: "no such Service"}, true, []string{
			"VirtualService shop/v is deleted, waiting for the gateways of Rouse to serve h.example.com (no such Service)",
			"AuthorizationPolicy shop/a is deleted, waiting for the gateways of Rouse to serve h.example.com (no such Service)",
		}},
		"callers come to Istio": {APIRule{Rest: rest, Ready: true}, false, []string{
			"you: point the DNS records of h.example.com to the gateways of Rouse, wait until their TTL has passed, and add --hosts-moved",
			"VirtualService shop/v is deleted, waiting for the DNS of h.example.com to point to Rouse, confirmed by --hosts-moved",
			"AuthorizationPolicy shop/a is deleted, waiting for the DNS of h.example.com to point to Rouse, confirmed by --hosts-moved",
		}},
		"callers come to Rouse": {APIRule{Rest: rest, Ready: true}, true, []string{
			"VirtualService shop/v is deleted", "AuthorizationPolicy shop/a is deleted, waiting for its VirtualService to be deleted",
		}},
		"the way is gone": {APIRule{Rest: rest[:1], Ready: true}, true, []string{"AuthorizationPolicy shop/a is deleted"}},
		"of v1beta1": {APIRule{OldSpec: "{}", Finalizer: true}, true, []string{
			"APIRule shop/r gets its spec of v1beta1 as v2", "APIRule shop/r is released from Kyma's finalizer, waiting for its spec of v2",
		}},
		"it cannot be converted": {APIRule{NoSpec: "two issuers", Finalizer: true}, true, []string{
			"you: rewrite APIRule shop/r as v2: two issuers", "APIRule shop/r is released from Kyma's finalizer, waiting for its spec of v2",
		}},
	} {
		s := moved()
		tc.rule.Object, tc.rule.Host = named("APIRule", "r"), "h.example.com"
		s.APIRules, s.HostsMoved = []APIRule{tc.rule}, tc.moved
		require.Equal(t, tc.want, lines(Decide(s)), name)
	}
}

func TestAPIRulesThatCannotBeServedNeedTheUser(t *testing.T) {
	t.Parallel()
	s := moved()
	s.APIRules = []APIRule{{Object: named("APIRule", "r")}}
	delete(s.Release.Flags, "apirules")
	require.Equal(t, []string{"you: enable APIRules in the release: " + s.takeAPIRules()}, lines(Decide(s)))
	s.APIRules, s.NoAPIRules = nil, "no webhook answers"
	require.Equal(t, []string{
		"you: APIRules cannot be read as v2: no webhook answers. Convert what is stored in an older version with rouse convert, then " + s.takeAPIRules(),
	}, lines(Decide(s)))
}

func TestAMoveIsRefusedWhereItWouldBeUndone(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Survey){
		"Deployment kyma-system/eventing-manager runs: it deletes": func(s *Survey) {
			s.Controllers = []Controller{{Object{Kind: "Deployment", Namespace: "kyma-system", Name: "eventing-manager"}, "it deletes"}}
		},
		"no controller of Rouse is ready":                                     func(s *Survey) { s.Release.Runs = false },
		"the state of NATS cannot be read from an eventbridge: there is none": func(s *Survey) { s.Unread = "there is none" },
		"a client is bound to 1 of Kyma's consumers":                          func(s *Survey) { s.NATS.Consumers = []target.KymaConsumer{{Bound: true}} },
		"Eventing shop/eventing has backend EventMesh": func(s *Survey) {
			s.Modules = []Module{{Object: named("Eventing", "eventing"), EventMesh: true}}
		},
		"kyma.allowEventingManager=true": func(s *Survey) { s.Release.Flags["allow-eventing-manager"] = "" },
		"is older than this command":     func(s *Survey) { delete(s.Release.Flags, "migration") },
	} {
		s := moved()
		require.Empty(t, Decide(s).Refused)
		change(s)
		require.Contains(t, strings.Join(Decide(s).Refused, "\n"), want)
	}
}

func TestTheWayBackIsRefusedWhileSomethingOfRouseIsInUse(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Survey){
		"Schedule shop/daily exists only in Rouse": func(s *Survey) {
			s.OnlyOurs = []Difference{{named("Schedule", "daily"), "exists only in Rouse: delete it"}}
		},
		"7 events are due later": func(s *Survey) { s.Delayed = 7 },
		"Function shop/price uses a feature that Kyma does not support: remove scaleConfig.minReplicas 0": func(s *Survey) {
			s.Functions = []Function{{Object: named("Function", "price"), OnlyOurs: []string{"scaleConfig.minReplicas 0"}}}
		},
		"Subscription shop/orders uses a feature that Kyma does not support: remove spec.filter": func(s *Survey) {
			s.Subscriptions = []Subscription{{Object: named("Subscription", "orders"), OnlyOurs: []string{"spec.filter"}}}
		},
		"has 3 events in retry": func(s *Survey) { s.Subscriptions = []Subscription{{Retries: 3}} },
		"has 2 dead letters":    func(s *Survey) { s.Subscriptions = []Subscription{{DeadLetters: 2}} },
		"Deployment kyma-system/x runs": func(s *Survey) {
			s.Controllers = []Controller{{Object{Kind: "Deployment", Namespace: "kyma-system", Name: "x"}, "it does"}}
		},
	} {
		s := moved()
		require.Empty(t, DecideBack(s).Refused)
		change(s)
		require.Contains(t, strings.Join(DecideBack(s).Refused, "\n"), want)
	}
}

func TestTheWayBackHandsEventsOverBeforeItStopsTheController(t *testing.T) {
	t.Parallel()
	s := moved()
	controller := Workload{Object: Object{Kind: "Deployment", Namespace: "rouse-system", Name: "c"}, Desired: 1, Available: 1}
	operator := Workload{Object: Object{Kind: "Deployment", Namespace: "rouse-system", Name: "o"}, Desired: 1, Available: 1}
	s.Release.Controllers = []Workload{operator, controller}
	s.Subscriptions = []Subscription{{Object: named("Subscription", "orders"), Consumer: true}}
	s.Functions = []Function{{Object: named("Function", "price"), Ours: &Workload{Available: 1}, Made: []Object{named("ScaledObject", "price")}}}
	s.Activators = []Object{named("EndpointSlice", "price")}
	require.Equal(t, []string{
		"ConfigMap rouse-system/rouse-migration requests the return of all consumers to Kyma",
		"Subscription shop/orders returns to consumers of Kyma, waiting for the controller of Rouse to return it",
		"Deployment rouse-system/o is scaled to 0, waiting for the Subscriptions", "Deployment rouse-system/c is scaled to 0, waiting for the Subscriptions",
		"ScaledObject shop/price is deleted, waiting for the controllers of Rouse to stop",
		"EndpointSlice shop/price is deleted, waiting for the controllers of Rouse to stop",
	}, lines(DecideBack(s)))

	s.Order.Direction, s.Subscriptions[0].Consumer = migration.ToKyma, false
	s.Release.Controllers[0].Desired = 0
	require.Equal(t, []string{
		"Deployment rouse-system/o stops, waiting for its pods to terminate",
		"Deployment rouse-system/c is scaled to 0, waiting for Deployment rouse-system/o to stop",
		"ScaledObject shop/price is deleted, waiting for the controllers of Rouse to stop",
		"EndpointSlice shop/price is deleted, waiting for the controllers of Rouse to stop",
	}, lines(DecideBack(s)))

	s.Release.Controllers = nil
	s.Functions[0].Ours.Available = 0
	require.Equal(t, []string{
		"Function shop/price keeps its Deployment , waiting for a pod of it to be ready", "ScaledObject shop/price is deleted", "EndpointSlice shop/price is deleted",
	}, lines(DecideBack(s)))
}

func TestResourcesOfKymasOperatorsAreLetGo(t *testing.T) {
	t.Parallel()
	s := moved()
	s.Modules = []Module{
		{Object: named("Eventing", "e"), Finalizer: true}, {Object: named("NATS", "n")}, {Object: named("Serverless", "s"), Finalizer: true},
	}
	loses := " is released from Kyma's finalizer, so that it can be deleted"
	require.Equal(t, []string{"Eventing shop/e" + loses, "Serverless shop/s" + loses}, lines(Decide(s)))
	s.Release.Operates = true
	require.Equal(t, []string{"Eventing shop/e" + loses}, lines(Decide(s)), "Rouse's operator has the same finalizer")
}
