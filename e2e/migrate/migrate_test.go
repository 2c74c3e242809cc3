//go:build e2e

package migrate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	stream     = "sap"
	eventType  = "migrate.order.v1"
	pending    = 2000
	publishers = 8
	patience   = 5 * time.Minute
)

func TestAClusterMovesFromKymaAndBackWhileItServes(t *testing.T) {
	m := start(t)
	requests, err := m.cluster.StartLoad(t.Context(), m.namespace, "price")
	require.NoError(t, err)
	m.layOutAsKyma()
	m.publishAll(pending)

	stop := m.publishSteadily()
	m.run(1)
	last := m.killed("apply")
	published := stop()
	m.awaitDelivered()
	before := requireServed(t, requests)
	require.Regexp(t, `leftovers=0 seconds=\d+$`, last)
	line := strings.Replace(last, " leftovers=", fmt.Sprintf(" published=%d lost=0 failed_requests=%d leftovers=", published, before.Failed), 1)
	_, _ = fmt.Fprintln(os.Stdout, line)

	stop = m.publishSteadily()
	require.Regexp(t, `^back ok: `, m.killed("back"))
	stop()
	requireServed(t, requests)
	m.run(1) // what waits at Kyma's consumers shows that nothing is lost when it is delivered
	m.killed("apply")
	m.awaitDelivered()
	after := requireServed(t, requests)
	_, _ = fmt.Fprintf(os.Stdout, "back ok: lost=0 failed_requests=%d\n", after.Failed)
}

func requireServed(t *testing.T, load *framework.Load) framework.LoadReport {
	t.Helper()
	report, err := load.Report(t.Context())
	require.NoError(t, err)
	require.Zero(t, report.Failed, report.Failures)
	return report
}

// move is a cluster that moves.
type move struct {
	t         *testing.T
	cluster   *framework.Cluster
	namespace string
	command   string // the command line's binary

	next atomic.Int64 // the number of the next event
}

func start(t *testing.T) *move {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	namespace := cluster.TestNamespace(t, "migrate")
	m := &move{t: t, cluster: cluster, namespace: namespace, command: filepath.Join(t.TempDir(), "rouse")}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", m.command, "../../cmd/rouse").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() {
		m.run(1)
		order := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: framework.System, Name: "rouse-migration"}}
		require.NoError(t, client.IgnoreNotFound(cluster.Delete(context.WithoutCancel(t.Context()), order)))
	})
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	manifest := framework.Function{Name: "price", Runtime: "nodejs22", Source: framework.ReportingHandler("")}.YAML() + "---\n" +
		framework.Subscription{Name: "price", Namespace: namespace, Type: eventType, Sink: "price"}.YAML()
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "price", "Running", "True", patience))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "price"))
	return m
}

// run scales Rouse's controller, and waits until as many pods are there.
func (m *move) run(replicas int32) {
	m.t.Helper()
	ctx := context.WithoutCancel(m.t.Context())
	key := types.NamespacedName{Namespace: framework.System, Name: "rouse-controller"}
	deployment := &appsv1.Deployment{}
	require.NoError(m.t, m.cluster.Get(ctx, key, deployment))
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	require.NoError(m.t, m.cluster.Patch(ctx, deployment, patch))
	require.NoError(m.t, framework.Await(ctx, patience, "the controller", func(ctx context.Context) (bool, error) {
		err := m.cluster.Get(ctx, key, deployment)
		return err == nil && deployment.Status.ReadyReplicas == replicas && deployment.Status.Replicas == replicas, err
	}))
}

// layOutAsKyma has the Functions run by Deployments as Kyma makes them, and the events wait at its consumers.
func (m *move) layOutAsKyma() {
	m.t.Helper()
	m.run(0)
	ours := &appsv1.Deployment{}
	require.NoError(m.t, m.cluster.Get(m.t.Context(), types.NamespacedName{Namespace: m.namespace, Name: "price"}, ours))
	kymas := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "price-x7k2p", Labels: ours.Labels, OwnerReferences: ours.OwnerReferences},
		Spec:       appsv1.DeploymentSpec{Selector: ours.Spec.Selector, Template: ours.Spec.Template},
	}
	require.NoError(m.t, m.cluster.Create(m.t.Context(), kymas))
	require.NoError(m.t, framework.Await(m.t.Context(), patience, "the pods of Kyma", func(ctx context.Context) (bool, error) {
		err := m.cluster.Get(ctx, client.ObjectKeyFromObject(kymas), kymas)
		return err == nil && kymas.Status.AvailableReplicas == 1, err
	}))
	require.NoError(m.t, m.cluster.Delete(m.t.Context(), ours))
	conn := m.connect()
	defer func() { require.NoError(m.t, conn.Close(m.t.Context())) }()
	consumers, err := conn.Consumers(m.t.Context(), stream)
	require.NoError(m.t, err)
	for _, consumer := range consumers {
		if _, of := broker.SubscriptionOf(consumer); of {
			require.NoError(m.t, conn.HandBack(m.t.Context(), stream, consumer))
		}
	}
	found, err := conn.KymaConsumers(m.t.Context(), stream)
	require.NoError(m.t, err)
	require.Positive(m.t, found.Left)
	_, err = conn.Backlog(m.t.Context(), stream, routing.ConsumerName(m.namespace, "price"))
	require.Error(m.t, err, "Rouse has no consumer any more")
}

// connect connects to the chart's NATS.
func (m *move) connect() *broker.Conn {
	m.t.Helper()
	pods, err := m.cluster.PodsOf(m.t.Context(), "nats")
	require.NoError(m.t, err)
	port, err := m.cluster.Forward(m.t.Context(), &pods[0], 4222)
	require.NoError(m.t, err)
	options := broker.Options{Name: "rouse-e2e", URL: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	conn, err := broker.Connect(m.t.Context(), options, logr.Discard())
	require.NoError(m.t, err)
	return conn
}

// publishOne publishes the next event. A refusal is an error.
func (m *move) publishOne(ctx context.Context) error {
	key := fmt.Sprintf("%s-%d", m.namespace, m.next.Add(1)-1)
	return m.cluster.Publish(ctx, framework.Event{ID: key, Type: eventType, Data: map[string]string{"key": key}})
}

func (m *move) publishAll(count int) {
	m.t.Helper()
	var group sync.WaitGroup
	failed := make(chan error, publishers)
	for range publishers {
		group.Go(func() {
			for range count / publishers {
				if err := m.publishOne(m.t.Context()); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	for err := range failed {
		require.NoError(m.t, err)
	}
}

// publishSteadily publishes until stop is called, which returns how many events there are in all.
func (m *move) publishSteadily() (stop func() int64) {
	ctx, cancel := context.WithCancel(m.t.Context())
	failed := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := m.publishOne(context.WithoutCancel(ctx)); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	return func() int64 {
		m.t.Helper()
		cancel()
		require.NoError(m.t, <-failed)
		return m.next.Load()
	}
}

// awaitDelivered waits until the ledger has each event that was published.
func (m *move) awaitDelivered() {
	m.t.Helper()
	var keys []string
	for i := range m.next.Load() {
		keys = append(keys, fmt.Sprintf("%s-%d", m.namespace, i))
	}
	_, err := m.cluster.AwaitLedger(m.t.Context(), m.namespace, keys, patience)
	require.NoError(m.t, err)
}

var change = regexp.MustCompile(` (is deleted|is scaled|asks the controller|leads to Rouse|loses)`)

// killed runs a verb again and again, and kills it after each change that it reports, until it ends by itself.
func (m *move) killed(verb string) (last string) {
	m.t.Helper()
	for range 100 {
		command := exec.CommandContext(m.t.Context(), m.command, "migrate", verb, "--kubeconfig", os.Getenv("KUBECONFIG"), "--timeout", patience.String())
		var out bytes.Buffer
		command.Stdout = &out
		errs, err := command.StderrPipe()
		require.NoError(m.t, err)
		require.NoError(m.t, command.Start())
		var said strings.Builder
		killed := false
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if change.MatchString(lines.Text()) && !strings.Contains(lines.Text(), ", waiting for ") {
				require.NoError(m.t, command.Process.Kill())
				killed = true
				break
			}
		}
		err = command.Wait()
		if !killed {
			require.NoError(m.t, err, said.String())
			return strings.TrimSpace(out.String())
		}
		var ended *exec.ExitError
		require.ErrorAs(m.t, err, &ended)
	}
	require.FailNow(m.t, "it repeats its changes")
	return ""
}
