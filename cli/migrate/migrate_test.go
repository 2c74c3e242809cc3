package migrate_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/transcript"
)

// Each test has a cluster of its own: a move concerns all namespaces.
var (
	cluster, refusing = envtest.New(envtest.WithKEDA()), envtest.New(envtest.WithKEDA())
	planned, paged    = envtest.New(envtest.WithKEDA()), envtest.New(envtest.WithKEDA())
)

// asCommand has the test's binary be the command line, so that it can be killed.
const asCommand = "ROUSE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(cluster.Main(m, refusing, planned, paged))
}

func (l *layout) args(verb string, more ...string) []string {
	return append([]string{
		"migrate", verb, "--kubeconfig", l.kubeconfig, "--rouse-namespace", rouseSystem, "--admin-url", l.admin, "--timeout", testTimeout.String(),
	}, more...)
}

// run runs a verb of the command in this process.
func (l *layout) run(verb string, more ...string) (code int, out, errs string) {
	l.t.Helper()
	args := l.args(verb, more...)
	if verb != "apply" && verb != "back" {
		args = append(args[:len(args)-len(more)-2], more...)
	}
	var stdout, stderr bytes.Buffer
	code = cli.Main(l.t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, ProgressAfter: time.Hour})
	return code, stdout.String(), stderr.String()
}

// killed runs a verb again and again, and kills it after each change that it reports, until it ends by itself.
func (l *layout) killed(verb string, more ...string) (last string, kills int) {
	l.t.Helper()
	for {
		command := exec.CommandContext(l.t.Context(), os.Args[0], l.args(verb, more...)...)
		command.Env = append(os.Environ(), asCommand+"=1")
		var out bytes.Buffer
		command.Stdout = &out
		errs, err := command.StderrPipe()
		require.NoError(l.t, err)
		require.NoError(l.t, command.Start())
		var said strings.Builder
		changed := false
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if changed = isChange(lines.Text()); changed {
				require.NoError(l.t, command.Process.Kill())
				break
			}
		}
		err = command.Wait()
		if !changed {
			require.NoError(l.t, err, said.String())
			return out.String(), kills
		}
		kills++
		require.Less(l.t, kills, 100, "it repeats a change: %s", said.String())
	}
}

// isChange tells a change from errors and from what the command waits for.
func isChange(line string) bool {
	return strings.Contains(line, " ") && !strings.HasPrefix(line, "rouse:") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "look") &&
		!strings.Contains(line, ", waiting for ") && !strings.Contains(line, "cannot be read")
}

func (l *layout) exists(kind, namespace, name string) bool {
	l.t.Helper()
	object := envtest.Object(l.t, kind)
	err := l.Client.Get(l.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object)
	require.NoError(l.t, client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

func (l *layout) subscription(name string, types ...string) *eventingv1alpha2.Subscription {
	l.t.Helper()
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name},
		Spec:       eventingv1alpha2.SubscriptionSpec{Sink: "http://price.shop.svc.cluster.local", Source: "shop", Types: types},
	}
	l.create(sub)
	return sub
}

// layOut is a cluster of two Functions, two Subscriptions with 2,000 events that wait, two APIRules, publishers and modules.
func layOut(t *testing.T, cluster *envtest.Cluster) *layout {
	t.Helper()
	l := newLayout(t, cluster)
	l.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "price"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	l.function("price")
	l.function("stock")
	l.apiRules("price", "stock")
	l.publisher()
	l.serverless()
	for name, subject := range map[string]string{"orders": "kyma.shop.order.v1", "audit": "kyma.shop.order.v1", "gone": "kyma.shop.item.v1"} {
		l.nats.AddKymaConsumer(t, broker.DefaultStream, shop, name, subject)
	}
	l.nats.AddKymaConsumer(t, broker.DefaultStream, shop, "orders", "kyma.shop.order.v2")
	l.subscription("orders", "order.v1", "order.v2")
	l.subscription("audit", "order.v1")
	l.publish = l.nats.Publisher(t)
	for i := range pendingEvents {
		require.NoError(t, l.publishNumber(i))
	}
	audit := l.nats.OpenPushConsumer(t, broker.DefaultStream, routing.TypeConsumerName(shop+"/audit/kyma.shop.order.v1"))
	audit.Settle(t, settledEvents)
	return l
}

const (
	pendingEvents = 2000
	settledEvents = 10 // by Kyma, for one of the Subscriptions
)

// publishNumber publishes an event of one of the two types.
func (l *layout) publishNumber(i int) error {
	return l.publish("kyma.shop.order.v"+strconv.Itoa(1+i%2), []byte(strconv.Itoa(i)))
}

// rouseTakesOver has Rouse's Deployments and gateways serve.
func (l *layout) rouseTakesOver() {
	l.t.Helper()
	for _, name := range []string{"price", "stock"} {
		l.rouseServes(l.get(name))
	}
	l.runGateways()
	l.runPods()
}

// publishMeanwhile publishes until the end of work, and returns how many were published in all.
func (l *layout) publishMeanwhile(from int, work func()) (published int) {
	l.t.Helper()
	done := make(chan struct{})
	var group sync.WaitGroup
	failed := make(chan error, 1)
	published = from
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(tick):
			}
			if err := l.publishNumber(published); err != nil {
				failed <- err
				return
			}
			published++
		}
	})
	work()
	close(done)
	group.Wait()
	select {
	case err := <-failed:
		require.NoError(l.t, err)
	default:
	}
	return published
}

func TestAMoveThatIsKilledAfterEachChangeLosesNothing(t *testing.T) {
	l := layOut(t, cluster)
	l.runController()
	code, _, errs := l.run("plan")
	require.Zero(t, code, errs)
	l.rouseTakesOver()

	var last string
	var kills int
	published := l.publishMeanwhile(pendingEvents, func() { last, kills = l.killed("apply", "--hosts-moved") })
	require.Regexp(t, `^migrate ok: functions=2 subscriptions=2 apirules=2 leftovers=0 seconds=\d+\n$`, last)
	require.Greater(t, kills, 3)
	again, out, errs := l.run("apply", "--hosts-moved")
	require.Zero(t, again, errs)
	require.Equal(t, last, out, "there is nothing to do any more")

	for _, gone := range []struct{ kind, namespace, name string }{
		{"{apiVersion: apps/v1, kind: Deployment}", shop, "price-x7k2p"},
		{"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler}", shop, "price-hq5nd"},
		{"{apiVersion: v1, kind: ConfigMap}", shop, "stock-9cxkk"},
		{"{apiVersion: networking.istio.io/v1, kind: VirtualService}", shop, "price-k2z9x"},
		{"{apiVersion: networking.istio.io/v1, kind: VirtualService}", shop, "stock-k2z9x"},
		{"{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy}", shop, "stock-k2z9x"},
		{"{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy}", shop, "price-k2z9x"},
		{"{apiVersion: security.istio.io/v1, kind: RequestAuthentication}", shop, "price-k2z9x"},
		{"{apiVersion: apps/v1, kind: Deployment}", kymaSystem, "eventing-publisher-proxy"},
		{"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice}", kymaSystem, "eventing-publisher-proxy-abcde"},
	} {
		require.False(t, l.exists(gone.kind, gone.namespace, gone.name), "%v", gone)
	}
	require.True(t, l.exists("{apiVersion: apps/v1, kind: Deployment}", shop, "price"))
	require.True(t, l.exists("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice}", kymaSystem, "eventing-publisher-proxy-ipv4"))
	for _, name := range []string{"price", "stock"} {
		rule := &v2.APIRule{}
		require.NoError(t, l.Client.Get(t.Context(), types.NamespacedName{Namespace: shop, Name: name}, rule))
		require.Equal(t, []v2.Host{v2.Host(name + ".example.com")}, rule.Spec.Hosts)
		require.Empty(t, rule.Finalizers)
	}
	service := &corev1.Service{}
	require.NoError(t, l.Client.Get(t.Context(), types.NamespacedName{Namespace: kymaSystem, Name: "eventing-publisher-proxy"}, service))
	require.Empty(t, service.Spec.Selector)
	require.Empty(t, service.OwnerReferences, "it does not go with Kyma's Eventing")
	require.Equal(t, "rouse", service.Annotations["meta.helm.sh/release-name"])
	for name, want := range map[string]int{"orders": published, "audit": (published+1)/2 - settledEvents} {
		backlog, err := l.conn.Backlog(t.Context(), broker.DefaultStream, routing.ConsumerName(shop, name))
		require.NoError(t, err)
		require.EqualValues(t, want, backlog.Total(), "%s: each event that Kyma has not delivered waits for Rouse, once", name)
	}
	t.Logf("migrate ok: functions=2 subscriptions=2 apirules=2 published=%d lost=0 leftovers=0 kills=%d", published, kills)

	published = l.publishMeanwhile(published, func() { last, kills = l.killed("back") })
	require.Regexp(t, `^back ok: functions=2 subscriptions=2 apirules=2 leftovers=0 seconds=\d+\n$`, last)
	require.Positive(t, kills)
	require.True(t, l.exists("{apiVersion: apps/v1, kind: Deployment}", shop, "price"), "Kyma's controller goes on with it")
	require.False(t, l.exists("{apiVersion: keda.sh/v1alpha1, kind: ScaledObject}", shop, "price"))
	seen := map[string]bool{}
	for _, subject := range []string{"kyma.shop.order.v1", "kyma.shop.order.v2"} {
		name := routing.TypeConsumerName(shop + "/orders/" + subject)
		consumer := l.nats.OpenPushConsumer(t, broker.DefaultStream, name)
		for _, data := range consumer.Settle(t, l.pendingAt(name)) {
			seen[data] = true
		}
	}
	require.Len(t, seen, published, "all that waited waits for Kyma")
	t.Logf("back ok: published=%d lost=0 kills=%d", published, kills)
}

// The commands of docs/kyma.md that install are run in charts.
func TestTheCommandsOfThePageMoveAClusterAndBack(t *testing.T) {
	page, err := os.ReadFile("../../docs/kyma.md")
	require.NoError(t, err)
	steps, err := transcript.Parse(string(page))
	require.NoError(t, err)
	l := layOut(t, paged)
	l.runController()
	l.rouseTakesOver()
	var ran []string
	for _, step := range steps {
		for command := range strings.Lines(step.Script) {
			words := strings.Fields(strings.ReplaceAll(command, "CONTEXT", "admin"))
			if len(words) < 3 || words[0] != "rouse" {
				continue
			}
			var stdout, stderr bytes.Buffer
			args := slices.Concat(words[1:], []string{"--kubeconfig", l.kubeconfig, "--admin-url", l.admin})
			code := cli.Main(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, ProgressAfter: time.Hour})
			out, _, _ := strings.Cut(stdout.String(), " functions=")
			ran = append(ran, strings.TrimSpace(command)+": "+lastLine(out))
			if code != 0 { // the manual step that the page names next
				require.Equal(t, 5, code, stderr.String())
				require.Contains(t, stderr.String(), "point the DNS records of price.example.com, stock.example.com to the gateways of Rouse")
			}
		}
	}
	require.Equal(t, []string{
		"rouse migrate plan --context CONTEXT: the cluster of context admin:",
		"rouse migrate apply --context CONTEXT: ",
		"rouse migrate apply --context CONTEXT --hosts-moved: migrate ok:",
		"rouse migrate status --context CONTEXT: migration: done",
		"rouse migrate plan --back --context CONTEXT: the cluster of context admin:",
		"rouse migrate back --context CONTEXT: back ok:",
	}, ran)
}

// lastLine is the last line of a text, up to a comma.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	line, _, _ := strings.Cut(text[strings.LastIndex(text, "\n")+1:], ",")
	return line
}

func TestAMoveChangesNothingBesideKymasControllers(t *testing.T) {
	l := newLayout(t, refusing)
	l.runPods()
	for _, name := range []string{"serverless-ctrl-mngr", "eventing-manager", "api-gateway-controller-manager"} {
		deployment := deploymentOf(kymaSystem, name, map[string]string{"app": name})
		l.create(deployment)
		require.Eventually(t, func() bool {
			code, _, errs := l.run("apply")
			return code == 5 && strings.Contains(errs, "Deployment kyma-system/"+name+" runs") && strings.Contains(errs, "no further change is made")
		}, testTimeout, tick)
		require.False(t, l.exists("{apiVersion: v1, kind: ConfigMap}", rouseSystem, "rouse-migration"))
		require.NoError(t, l.Client.Delete(t.Context(), deployment))
	}
}

// pendingAt counts what waits at a consumer of Kyma.
func (l *layout) pendingAt(name string) int {
	l.t.Helper()
	consumers, err := l.conn.Consumers(l.t.Context(), broker.DefaultStream)
	require.NoError(l.t, err)
	i := slices.IndexFunc(consumers, func(c broker.Consumer) bool { return c.Name == name })
	require.GreaterOrEqual(l.t, i, 0, "there is no consumer %s", name)
	return int(consumers[i].Backlog.Total())
}

// get reads a Function.
func (l *layout) get(name string) *v1alpha2.Function {
	l.t.Helper()
	fn := &v1alpha2.Function{}
	require.NoError(l.t, l.Client.Get(l.t.Context(), types.NamespacedName{Namespace: shop, Name: name}, fn))
	return fn
}
