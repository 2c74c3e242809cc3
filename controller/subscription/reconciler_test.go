package subscription

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/controller/keyring"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const (
	timeout = time.Minute
	tick    = 50 * time.Millisecond
)

// cluster is the control plane of all tests here.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// fixture is a running controller with its own NATS server.
type fixture struct {
	client.Client
	t         *testing.T
	nats      *natstest.Server
	conn      *broker.Conn
	registry  *prometheus.Registry
	namespace string
	keys      types.NamespacedName // the Secret with the keys of bridges
}

func newFixture(t *testing.T, changes ...func(*Options)) *fixture {
	t.Helper()
	server := natstest.Start(t)
	return newFixtureAt(t, server, server.URL(), changes...)
}

func newFixtureAt(t *testing.T, server *natstest.Server, url string, changes ...func(*Options)) *fixture {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	env := cluster.Environment(t)
	connection := broker.DefaultOptions()
	connection.URL = url
	conn, err := broker.Connect(t.Context(), connection, logr.Discard())
	require.NoError(t, err)

	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	controllers := config.Controller{SkipNameValidation: new(true)} // one controller after the other
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: controllers,
	})
	require.NoError(t, err)
	options, namespace := DefaultOptions(), env.Namespace(t)
	keys := types.NamespacedName{Namespace: namespace, Name: "rouse-doors"}
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: keys.Namespace, Name: keys.Name}}))
	options.Keyring, err = keyring.New(mgr, keys)
	require.NoError(t, err)
	for _, change := range changes {
		change(&options)
	}
	registry := prometheus.NewRegistry()
	require.NoError(t, Setup(t.Context(), mgr, conn, registry, options))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, conn.Close(context.Background()))
	})
	return &fixture{Client: env.Client, t: t, nats: server, conn: conn, registry: registry, namespace: namespace, keys: keys}
}

func (w *fixture) create(name string, changes ...func(*eventingv1alpha2.SubscriptionSpec)) *eventingv1alpha2.Subscription {
	w.t.Helper()
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: eventingv1alpha2.SubscriptionSpec{
			Sink:   "http://price." + w.namespace + ".svc.cluster.local",
			Source: "shop",
			Types:  []string{"order.received.v1"},
		},
	}
	for _, change := range changes {
		change(&sub.Spec)
	}
	require.NoError(w.t, w.Create(w.t.Context(), sub))
	return sub
}

func (w *fixture) createSink() *corev1.Service {
	w.t.Helper()
	return w.createService("price")
}

func (w *fixture) createService(name string) *corev1.Service {
	w.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	require.NoError(w.t, w.Create(w.t.Context(), service))
	return service
}

func (w *fixture) update(sub *eventingv1alpha2.Subscription, change func(*eventingv1alpha2.SubscriptionSpec)) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(sub), sub); err != nil {
			return false
		}
		change(&sub.Spec)
		return w.Update(w.t.Context(), sub) == nil
	}, timeout, tick)
}

func (w *fixture) awaitStatus(sub *eventingv1alpha2.Subscription, what string, holds func(eventingv1alpha2.SubscriptionStatus) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		err := w.Get(w.t.Context(), client.ObjectKeyFromObject(sub), sub)
		return err == nil && holds(sub.Status)
	}, timeout, tick, what)
}

func (w *fixture) awaitReady(sub *eventingv1alpha2.Subscription) {
	w.t.Helper()
	w.awaitStatus(sub, "it becomes ready", func(status eventingv1alpha2.SubscriptionStatus) bool { return status.Ready })
}

// awaitShown waits until the readiness of a Subscription is exported with this value, or not exported if it is
// negative.
func (w *fixture) awaitShown(sub *eventingv1alpha2.Subscription, value float64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		families, err := w.registry.Gather()
		require.NoError(w.t, err)
		found := 0
		for _, family := range families {
			if family.GetName() != "eventing_ec_subscription_status" {
				continue
			}
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				if labels["subscription_namespace"] != sub.Namespace || labels["subscription_name"] != sub.Name {
					continue
				}
				if metric.GetGauge().GetValue() != value {
					return false
				}
				found++
			}
		}
		return found > 0 == (value >= 0)
	}, timeout, tick, "its readiness is not shown as %v", value)
}

// consumer is the consumer of a Subscription, and whether it exists.
func (w *fixture) consumer(sub *eventingv1alpha2.Subscription) (broker.Consumer, bool) {
	w.t.Helper()
	return w.consumerOf(broker.DefaultStream, sub)
}

func (w *fixture) consumerOf(stream string, sub *eventingv1alpha2.Subscription) (broker.Consumer, bool) {
	w.t.Helper()
	consumers, err := w.conn.Consumers(w.t.Context(), stream)
	require.NoError(w.t, err)
	i := slices.IndexFunc(consumers, func(c broker.Consumer) bool { return c.Name == routing.ConsumerName(sub.Namespace, sub.Name) })
	if i < 0 {
		return broker.Consumer{}, false
	}
	return consumers[i], true
}

func (w *fixture) awaitConsumer(sub *eventingv1alpha2.Subscription, what string, holds func(broker.Consumer, bool) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return holds(w.consumer(sub)) }, timeout, tick, what)
}

// own returns the conditions that Ready and Stalled, which come last, repeat.
func own(status eventingv1alpha2.SubscriptionStatus) []eventingv1alpha2.Condition {
	return status.Conditions[:beforeSummary(status.Conditions)]
}

func exists(_ broker.Consumer, ok bool) bool { return ok }

func missing(_ broker.Consumer, ok bool) bool { return !ok }

// The controllers of several tests would conflict in one API server, so these run
// one after the other.

func TestASubscriptionGetsAConsumerAndAStatus(t *testing.T) {
	w := newFixture(t)
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Types = []string{"order.received.v1", "order. changed.v1"}
		spec.Config = map[string]string{eventingv1alpha2.ConfigMaxInFlight: "500"}
	})

	w.awaitStatus(sub, "the missing sink is reported", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return len(own(status)) == 1
	})
	require.Equal(t, "Sink validation failed: service price."+w.namespace+" not found in the cluster", sub.Status.Conditions[0].Message)
	require.False(t, sub.Status.Ready)
	w.awaitShown(sub, 0)
	require.Empty(t, sub.Status.Types)
	w.awaitConsumer(sub, "events are kept for the sink to come", exists)

	sink := w.createSink()
	w.awaitReady(sub)
	w.awaitShown(sub, 1)
	require.Equal(t, []string{eventingv1alpha2.Finalizer}, sub.Finalizers)
	require.Equal(t, eventingv1alpha2.ConditionSpecValid, sub.Status.Conditions[0].Type)
	require.Equal(t, eventingv1alpha2.ConditionActive, sub.Status.Conditions[1].Type)
	require.Equal(t, eventingv1alpha2.ReasonActive, sub.Status.Conditions[1].Reason)
	require.Equal(t, eventingv1alpha2.EventType{OriginalType: "order. changed.v1", CleanType: "order.changed.v1"}, sub.Status.Types[1])
	require.Len(t, sub.Status.Backend.Types[0].ConsumerName, 32)
	consumer, _ := w.consumer(sub)
	require.Equal(t, []string{"kyma.shop.order.received.v1", "kyma.shop.order.changed.v1", redeliveryOf(sub)}, consumer.Subjects)
	require.Equal(t, 500+routing.Ahead, consumer.MaxAckPending)
	require.Equal(t, w.namespace+"/orders", consumer.Description)

	require.NoError(t, w.Delete(t.Context(), sink))
	w.awaitStatus(sub, "the missing sink is noticed", func(status eventingv1alpha2.SubscriptionStatus) bool { return !status.Ready })
	w.awaitConsumer(sub, "its events are kept", exists)
	w.awaitShown(sub, 0)
	require.NoError(t, w.Delete(t.Context(), sub))
	w.awaitShown(sub, -1)
}

func redeliveryOf(sub *eventingv1alpha2.Subscription) string {
	return routing.RedeliverySubject(routing.ConsumerName(sub.Namespace, sub.Name))
}

func TestAConsumerFollowsItsSubscription(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Types = []string{"order.shipped.v1"}
		spec.Config = map[string]string{eventingv1alpha2.ConfigMaxInFlight: "200"}
	})
	w.awaitConsumer(sub, "it is changed in place", func(consumer broker.Consumer, ok bool) bool {
		return ok && slices.Equal(consumer.Subjects, []string{"kyma.shop.order.shipped.v1", redeliveryOf(sub)}) && consumer.MaxAckPending == 200+routing.Ahead
	})

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Types = []string{"one"} })
	w.awaitStatus(sub, "an invalid spec is reported", func(status eventingv1alpha2.SubscriptionStatus) bool { return !status.Ready })
	require.Equal(t, `Subscription validation failed: spec.types: Invalid value: "one": must have minimum 2 segments`,
		sub.Status.Conditions[0].Message)
	w.awaitConsumer(sub, "the consumer stays", exists)

	require.NoError(t, w.Delete(t.Context(), sub))
	w.awaitConsumer(sub, "the consumer goes with its Subscription", missing)
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
	}, timeout, tick)
}

func TestASubscriptionThatBecomesInvalidKeepsItsConsumerAsItWas(t *testing.T) {
	policy := routing.Policy{}
	require.NoError(t, policy.Access.Set(`{"subscribe":{"rules":[{"namespaces":["*"],"sources":["shop"]}]}}`))
	w := newFixture(t, func(o *Options) { o.Sinks = policy })
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	valid := sub.Spec
	for name, tc := range map[string]struct {
		change func(*eventingv1alpha2.SubscriptionSpec)
		routed bool // whether bridges have a dispatcher for it
	}{
		"no type matching":    {func(s *eventingv1alpha2.SubscriptionSpec) { s.TypeMatching = "fuzzy" }, true},
		"a type twice":        {func(s *eventingv1alpha2.SubscriptionSpec) { s.Types = []string{"a.b", "a.b"} }, true},
		"a type too short":    {func(s *eventingv1alpha2.SubscriptionSpec) { s.Types = []string{"one"} }, true},
		"no number in config": {func(s *eventingv1alpha2.SubscriptionSpec) { s.Config = map[string]string{"maxInFlightMessages": "x"} }, true},
		"a bad filter":        {func(s *eventingv1alpha2.SubscriptionSpec) { s.Filter = &eventingv1alpha2.Filter{CEL: "1 +"} }, true},
		"no types":            {func(s *eventingv1alpha2.SubscriptionSpec) { s.Types = []string{} }, false},
		"no sink":             {func(s *eventingv1alpha2.SubscriptionSpec) { s.Sink = "" }, false},
		"a sink elsewhere":    {func(s *eventingv1alpha2.SubscriptionSpec) { s.Sink = "http://price.other.svc.cluster.local" }, false},
		"another's events":    {func(s *eventingv1alpha2.SubscriptionSpec) { s.Source = "bank" }, false},
		"dead letters elsewhere": {func(s *eventingv1alpha2.SubscriptionSpec) {
			s.Delivery = &eventingv1alpha2.Delivery{DeadLetter: &eventingv1alpha2.DeadLetter{Sink: "http://price.other.svc.cluster.local"}}
		}, false},
	} {
		w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) {
			*spec = *valid.DeepCopy()
			tc.change(spec)
			if spec.Delivery == nil {
				spec.Delivery = &eventingv1alpha2.Delivery{}
			}
			spec.Delivery.OrderedBy = "customer" // which needs another kind of consumer
		})
		w.awaitStatus(sub, name, func(status eventingv1alpha2.SubscriptionStatus) bool { return !status.Ready })
		_, err := routing.FromSubscription(sub, policy)
		require.Equal(t, tc.routed, err == nil, name)
		w.awaitConsumer(sub, name, func(consumer broker.Consumer, ok bool) bool {
			return ok && !consumer.Ordered && slices.Equal(consumer.Subjects, []string{"kyma.shop.order.received.v1", redeliveryOf(sub)})
		})
		w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { *spec = *valid.DeepCopy() })
		w.awaitReady(sub)
	}
}

func TestAnInvalidSubscriptionGetsAStatusFromTheStart(t *testing.T) {
	w := newFixture(t)
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink = "ftp://price" })
	w.awaitStatus(sub, "the error is reported", func(status eventingv1alpha2.SubscriptionStatus) bool { return len(own(status)) == 1 })
	require.Contains(t, sub.Status.Conditions[0].Message, "must have URL scheme 'http' or 'https'")
	require.NoError(t, w.Delete(t.Context(), sub))
}

func TestAMisspeltFilterIsRefused(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	written := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "eventing.kyma-project.io/v1alpha2", "kind": "Subscription",
		"metadata": map[string]any{"namespace": w.namespace, "name": "orders"},
		"spec": map[string]any{
			"sink": "http://price." + w.namespace + ".svc.cluster.local", "source": "shop", "types": []any{"order.received.v1"},
			"filter": map[string]any{"exat": map[string]any{"tenant": "blue"}},
		},
	}}
	require.NoError(t, w.Create(t.Context(), written), "the API server drops unknown fields")
	sub := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "orders"}}
	w.awaitStatus(sub, "the error is reported", func(status eventingv1alpha2.SubscriptionStatus) bool { return len(own(status)) == 1 })
	require.False(t, sub.Status.Ready)
	require.Contains(t, sub.Status.Conditions[0].Message, "spec.filter: has no condition; set cel, exact, prefix")

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Filter = &eventingv1alpha2.Filter{Exact: map[string]string{"tenant": "blue"}}
	})
	w.awaitReady(sub)
}

func TestTooManyConsumersNameTheRemedy(t *testing.T) {
	account := func(limit string) natstest.Option {
		return natstest.WithAuthorization(t, `accounts: {A: {jetstream: {`+limit+`}, users: [{user: me, password: pass}]}}`)
	}
	server := natstest.Start(t, account("max_consumers: 1"))
	w := newFixtureAt(t, server, strings.Replace(server.URL(), "://", "://me:pass@", 1))
	w.createSink()
	both := []*eventingv1alpha2.Subscription{w.create("first"), w.create("second")}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(both, func(sub *eventingv1alpha2.Subscription) bool {
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
			if len(own(sub.Status)) != 2 || sub.Status.Ready {
				return false
			}
			active := sub.Status.Conditions[1]
			return active.Reason == eventingv1alpha2.ReasonNotActive && strings.Contains(active.Message, "NATS takes no more consumers") &&
				strings.Contains(active.Message, "raise max_consumers of the stream or of its account")
		})
	}, timeout, tick, "there is a consumer for one of them")

	server.Change(account("max_consumers: -1"))
	w.awaitReady(both[0])
	w.awaitReady(both[1])
}

func TestOverlappingTypesShareOneFilter(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.TypeMatching = eventingv1alpha2.TypeMatchingExact
		spec.Types = []string{"order.received.v1", "order.>"}
	})
	w.awaitReady(sub)
	require.Len(t, sub.Status.Types, 2)
	consumer, _ := w.consumer(sub)
	require.Equal(t, []string{"kyma.order.>", redeliveryOf(sub)}, consumer.Subjects)
}

func TestConsumersAreRecreatedAfterNATSLostThem(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)

	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, routing.ConsumerName(sub.Namespace, sub.Name)))
	stray := broker.ConsumerOf(routing.Route{
		Subscription: client.ObjectKey{Namespace: w.namespace, Name: "gone"},
		Consumer:     routing.ConsumerName(w.namespace, "gone"),
		Subjects:     []string{"kyma.shop.gone"},
	})
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, stray))
	others := broker.Consumer{Name: "somebody-elses", Subjects: []string{"kyma.other"}}
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DefaultStream, others))

	w.nats.Stop()
	late := w.create("late")
	w.awaitStatus(late, "it reports that NATS is unavailable", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return len(own(status)) == 2 && !status.Ready && status.Conditions[1].Reason == eventingv1alpha2.ReasonNotActive
	})
	w.nats.Run()

	w.awaitReady(late)
	w.awaitConsumer(sub, "a lost consumer is made again", exists)
	require.Eventually(t, func() bool {
		consumers, err := w.conn.Consumers(t.Context(), broker.DefaultStream)
		require.NoError(t, err)
		return !slices.ContainsFunc(consumers, func(c broker.Consumer) bool { return c.Name == stray.Name }) &&
			slices.ContainsFunc(consumers, func(c broker.Consumer) bool { return c.Name == others.Name })
	}, timeout, tick, "a consumer without Subscription goes, and one of others stays")
}

func TestSinksInOtherNamespacesNeedTheOperatorsPermission(t *testing.T) {
	w := newFixture(t, func(o *Options) { o.Sinks.AllowedSinkHosts = []string{"api.example.com", "*.svc.cluster.local"} })
	there := cluster.Environment(t).Namespace(t)
	foreign := w.create("foreign", func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink = "https://api.example.com/in" })
	w.awaitReady(foreign)
	next := w.create("next", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Sink = "http://price." + there + ".svc.cluster.local"
	})
	w.awaitStatus(next, "the missing sink is reported", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return len(own(status)) == 1 && !status.Ready
	})
	require.Equal(t, "Sink validation failed: service price."+there+" not found in the cluster", next.Status.Conditions[0].Message)
	require.NoError(t, w.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: there, Name: "price"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}))
	w.awaitReady(next)
}

func TestSubscriptionGetsOnlyEventsThatTheOperatorAllowsItsNamespace(t *testing.T) {
	w := newFixture(t, func(o *Options) {
		o.Sinks.Access.Subscribe = &routing.SubscribeAccess{Rules: []routing.SubscribeRule{
			{Namespaces: []string{"*"}, EventRule: routing.EventRule{Sources: []string{"shop"}}},
		}}
	})
	w.createSink()
	allowed := w.create("allowed")
	w.awaitReady(allowed)
	denied := w.create("denied", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.TypeMatching, spec.Types = eventingv1alpha2.TypeMatchingExact, []string{"*.>"}
	})
	w.awaitStatus(denied, "it reports the reason", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return len(status.Conditions) > 0 && !status.Ready && strings.Contains(status.Conditions[0].Message, "no rule of access.subscribe")
	})
	consumers, err := w.conn.Consumers(t.Context(), broker.DefaultStream)
	require.NoError(t, err)
	own := slices.DeleteFunc(consumers, func(c broker.Consumer) bool {
		of, _ := broker.SubscriptionOf(c)
		return of.Namespace != w.namespace
	})
	require.Len(t, own, 1, "no event is kept for it")
	count, err := testutil.GatherAndCount(w.registry, "rouse_controller_subscription_denials_total")
	require.NoError(t, err)
	require.Positive(t, count)
}

func TestAnInvalidSinkIsReportedUntilItIsFixed(t *testing.T) {
	w := newFixture(t)
	service := w.createSink()
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink += ":8080/in" })
	name := "service price." + w.namespace
	reports := func(text string) {
		t.Helper()
		w.awaitStatus(sub, text, func(status eventingv1alpha2.SubscriptionStatus) bool {
			return !status.Ready && len(own(status)) == 1 && status.Conditions[0].Message == "Sink validation failed: "+name+text
		})
	}
	change := func(spec corev1.ServiceSpec) {
		t.Helper()
		require.Eventually(t, func() bool {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil {
				return false
			}
			spec.ClusterIP, spec.ClusterIPs = service.Spec.ClusterIP, service.Spec.ClusterIPs
			if spec.Type == corev1.ServiceTypeExternalName {
				spec.ClusterIP, spec.ClusterIPs = "", nil
			}
			service.Spec = spec
			return w.Update(t.Context(), service) == nil
		}, timeout, tick)
	}
	ports := []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "in", Port: 8080}}
	reports(" has no TCP port 8080: write one of its ports into the sink")
	change(corev1.ServiceSpec{Ports: ports})
	w.awaitReady(sub)
	change(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.internal", Ports: ports})
	reports(" is of type ExternalName: name the host itself as the sink, which the operator of the cluster has to allow")
	change(corev1.ServiceSpec{Ports: ports})
	w.awaitReady(sub)
	w.awaitConsumer(sub, "events are kept all the time", exists)
}

func TestTheStatusCountsDeadLettersAndReportsDroppedOnes(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	for range 3 {
		w.nats.Publish(t, "rouse.deadletter."+w.namespace+".orders", []byte("an event that was given up"))
	}
	require.Eventually(t, func() bool {
		counts, err := w.conn.DeadLetterCounts(t.Context())
		return err == nil && counts[client.ObjectKeyFromObject(sub)] == 3
	}, timeout, tick)
	w.nats.Publish(t, "rouse.dropped."+w.namespace+".orders", nil)
	require.Eventually(t, func() bool {
		dropped, err := w.conn.DroppedDeadLetters(t.Context())
		return err == nil && dropped[client.ObjectKeyFromObject(sub)]
	}, timeout, tick)
	lost := func(status eventingv1alpha2.SubscriptionStatus) bool {
		conditions := own(status)
		last := conditions[len(conditions)-1]
		return last.Type == "Dead letters kept" && last.Status == corev1.ConditionFalse
	}
	w.nats.Restart() // the controller sweeps when it reaches NATS again
	w.awaitStatus(sub, "the dead letters are counted", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return status.DeadLetters == 3 && lost(status)
	})
	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Types = []string{"order.shipped.v1"} })
	w.awaitStatus(sub, "both stay", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return status.Ready && len(status.Types) == 1 && status.DeadLetters == 3 && lost(status)
	})
	require.Contains(t, sub.Status.Conditions[2].Message, "deadLetters.maxBytes")
	w.nats.DeleteStream(t, broker.DeadLetterStream)
	w.nats.Restart()
	w.awaitStatus(sub, "it is forgotten with the dead letters", func(status eventingv1alpha2.SubscriptionStatus) bool {
		return status.DeadLetters == 0 && !lost(status)
	})
}

// awaitDeadLetterConsumer waits for the state of a Subscription's consumer of dead letters.
func (w *fixture) awaitDeadLetterConsumer(sub *eventingv1alpha2.Subscription, what string, holds func(broker.Consumer, bool) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return holds(w.consumerOf(broker.DeadLetterStream, sub)) }, timeout, tick, what)
}

// awaitDeadLetterSink waits for the condition.
func (w *fixture) awaitDeadLetterSink(sub *eventingv1alpha2.Subscription, want eventingv1alpha2.ConditionReason) {
	w.t.Helper()
	w.awaitStatus(sub, string(want), func(status eventingv1alpha2.SubscriptionStatus) bool {
		return len(own(status)) == 3 && status.Conditions[2].Reason == want
	})
	require.Equal(w.t, eventingv1alpha2.ConditionDeadLetterSink, sub.Status.Conditions[2].Type)
	require.True(w.t, sub.Status.Ready, "events do not depend on it")
}

func TestASinkOfDeadLettersHasAConsumerAndACondition(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	deadLetterSink := "http://dead-letters." + w.namespace + ".svc.cluster.local"
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Delivery = deadLettersTo(deadLetterSink + "/?token=secret")
	})

	unfound := "Sink validation failed: service dead-letters." + w.namespace + " not found in the cluster"
	w.awaitStatus(sub, unfound, func(status eventingv1alpha2.SubscriptionStatus) bool { // at first its stream may not be there either
		return len(own(status)) == 3 && status.Conditions[2].Message == unfound
	})
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonNoDeadLetterSink)
	consumer, ok := w.consumerOf(broker.DeadLetterStream, sub)
	require.True(t, ok, "dead letters wait for it")
	require.Equal(t, []string{"rouse.deadletter." + w.namespace + ".orders"}, consumer.Subjects)
	require.Equal(t, broker.MaxDeadLettersPending, consumer.MaxAckPending)
	require.Equal(t, deadLetterSink+"/", consumer.Metadata[broker.MetadataSink])

	service := w.createService("dead-letters")
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonDeadLetterSink)
	require.NoError(t, w.Delete(t.Context(), service))
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonNoDeadLetterSink)

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = deadLettersTo("dead-letters") })
	w.awaitStatus(sub, "the error is reported", func(status eventingv1alpha2.SubscriptionStatus) bool { return !status.Ready })
	require.Equal(t, `Subscription validation failed: spec.delivery.deadLetter.sink: Invalid value: "dead-letters": must have URL scheme 'http' or 'https'`,
		sub.Status.Conditions[0].Message)
	w.awaitDeadLetterConsumer(sub, "the consumer stays", exists)

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = deadLettersTo(deadLetterSink) })
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonNoDeadLetterSink)
	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = nil })
	w.awaitDeadLetterConsumer(sub, "the consumer goes with the field", missing)
	w.awaitStatus(sub, "and the condition", func(status eventingv1alpha2.SubscriptionStatus) bool { return len(own(status)) == 2 })

	w.update(sub, func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Delivery = deadLettersTo(deadLetterSink) })
	w.awaitDeadLetterConsumer(sub, "it is made again", exists)
	require.NoError(t, w.Delete(t.Context(), sub))
	w.awaitDeadLetterConsumer(sub, "the consumer goes with its Subscription", missing)
}

func TestDeadLetterConsumersFollowTheirSubscriptions(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	w.createService("dead-letters")
	sub := w.create("orders", func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Delivery = deadLettersTo("http://dead-letters." + w.namespace + ".svc.cluster.local")
	})
	plain := w.create("plain")
	w.awaitDeadLetterSink(sub, eventingv1alpha2.ReasonDeadLetterSink)
	w.awaitReady(plain)

	require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DeadLetterStream, routing.ConsumerName(sub.Namespace, sub.Name)))
	for _, name := range []string{"gone", "plain"} { // one without a Subscription, one whose Subscription has no such sink
		key := client.ObjectKey{Namespace: w.namespace, Name: name}
		require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DeadLetterStream, broker.ConsumerOf(routing.Route{
			Subscription: key, Consumer: routing.ConsumerName(key.Namespace, key.Name),
			Subjects: []string{routing.DeadLetterSubject(key)}, OfDeadLetters: true,
		})))
	}
	others := broker.Consumer{Name: "somebody-elses", Subjects: []string{"rouse.deadletter.>"}}
	require.NoError(t, w.conn.EnsureConsumer(t.Context(), broker.DeadLetterStream, others))

	w.nats.Restart()
	want := []string{routing.ConsumerName(sub.Namespace, sub.Name), "somebody-elses"}
	slices.Sort(want)
	require.Eventually(t, func() bool {
		consumers, err := w.conn.Consumers(t.Context(), broker.DeadLetterStream)
		if err != nil {
			return false
		}
		var names []string
		for _, consumer := range consumers {
			names = append(names, consumer.Name)
		}
		slices.Sort(names)
		return slices.Equal(names, want)
	}, timeout, tick)
}

func deadLettersTo(sink string) *eventingv1alpha2.Delivery {
	return &eventingv1alpha2.Delivery{DeadLetter: &eventingv1alpha2.DeadLetter{Sink: sink}}
}
