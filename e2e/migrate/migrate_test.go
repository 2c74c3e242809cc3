//go:build e2e

package migrate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	stream    = "sap"
	eventType = "migrate.order.v1"
	pending   = 2000
	timeout   = 5 * time.Minute
)

func TestAClusterMovesFromKymaAndBackWhileItServes(t *testing.T) {
	m := start(t)
	m.layOutAsKyma()
	m.callHosts("http://" + istio)
	waiting := m.publisher(map[string]any{"count": pending})
	require.Zero(t, waiting.Failed, waiting.Failures)
	m.publisher(map[string]any{"start": true})

	m.run(1)
	last := m.apply()
	published := m.requireServed()
	m.awaitDelivered(published)
	require.Regexp(t, `^migrate ok: .* leftovers=0 seconds=\d+$`, last)
	again, _ := m.killed("apply", "--hosts-moved")
	require.Equal(t, last, again, "there is nothing to do any more")
	t.Logf("killed %d times", m.kills)
	_, _ = fmt.Fprintln(os.Stdout, strings.Replace(last, " leftovers=", fmt.Sprintf(" published=%d lost=0 failed_requests=0 leftovers=", published), 1))

	m.kills = 0
	m.callHosts(framework.Entrance)
	m.publisher(map[string]any{"start": true})
	last, left := m.killed("back")
	require.Empty(t, left)
	require.Regexp(t, `^back ok: `, last)
	published = m.requireServed()
	m.run(1) // what waits at Kyma's consumers shows that nothing is lost when it is delivered
	_, left = m.killed("apply", "--hosts-moved")
	require.Empty(t, left)
	m.awaitDelivered(published)
	t.Logf("killed %d times", m.kills)
	_, _ = fmt.Fprintln(os.Stdout, "back ok: lost=0 failed_requests=0")
}

// move is a cluster that moves.
type move struct {
	t         *testing.T
	cluster   *framework.Cluster
	namespace string
	command   string // the command line's binary
	kills     int

	requests *framework.Load
	callers  map[string]*framework.Caller // by their APIRule
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
		if t.Failed() { // consumers of Kyma's would close the stream to all Subscriptions
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			args := []string{"migrate", "apply", "--hosts-moved", "--kubeconfig", os.Getenv("KUBECONFIG"), "--timeout", "50s"}
			out, err := exec.CommandContext(ctx, m.command, args...).CombinedOutput()
			t.Logf("the move ends: %v: %s", err, out)
		}
		order := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: framework.System, Name: "rouse-migration"}}
		require.NoError(t, client.IgnoreNotFound(cluster.Delete(context.WithoutCancel(t.Context()), order)))
	})
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	const echo = "module.exports.main = event => typeof event.data === 'string' ? event.data : 'here'"
	manifest := framework.Function{Name: "price", Runtime: "nodejs22", Source: framework.ReportingHandler("")}.YAML() + "---\n" +
		framework.Function{Name: "stock", Runtime: "nodejs22", Source: echo}.YAML() + "---\n" +
		framework.Subscription{Name: "price", Namespace: namespace, Type: eventType, Sink: "price"}.YAML()
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, manifest))
	for _, name := range []string{"price", "stock"} {
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, name, "Running", "True", timeout))
	}
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "price"))
	m.startClients()
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
	require.NoError(m.t, framework.Await(ctx, timeout, "the controller", func(ctx context.Context) (bool, error) {
		err := m.cluster.Get(ctx, key, deployment)
		return err == nil && deployment.Status.ReadyReplicas == replicas && deployment.Status.Replicas == replicas, err
	}))
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

// helmUpgrade is the command that values of the release are changed with.
var helmUpgrade = regexp.MustCompile(`helm (upgrade \S+) CHART (-n .* --set kyma\.publisherAlias=true)`)

// apply moves the cluster, and does on the way what the command leaves to the user.
func (m *move) apply() (last string) {
	m.t.Helper()
	var moved []string
	for range 4 {
		last, left := m.killed("apply", moved...)
		upgrade := helmUpgrade.FindStringSubmatch(left)
		switch {
		case left == "":
			return last
		case upgrade != nil:
			args := slices.Concat(strings.Fields(upgrade[1]), []string{"../../charts/rouse", "--wait", "--timeout", "3m"}, strings.Fields(upgrade[2]))
			out, err := exec.CommandContext(m.t.Context(), "helm", args...).CombinedOutput()
			require.NoError(m.t, err, string(out))
		case strings.Contains(left, "--hosts-moved"):
			m.pauseHosts()
			m.callHosts(framework.Entrance)
			moved = []string{"--hosts-moved"}
		default:
			require.FailNow(m.t, "it leaves something else to the user", left)
		}
	}
	require.FailNow(m.t, "it leaves the same to the user again and again")
	return ""
}

// change matches a change that the command reports, and not what it waits for.
var change = regexp.MustCompile(`^[A-Z][A-Za-z]+ \S+/\S+ (is |requests |becomes |gets )`)

// killed runs a verb again and again, and kills it after each change that it reports, until it ends by itself: with its last line, or
// with what it leaves to the user.
func (m *move) killed(verb string, flags ...string) (last, left string) {
	m.t.Helper()
	for range 100 {
		args := append([]string{"migrate", verb, "--kubeconfig", os.Getenv("KUBECONFIG"), "--timeout", timeout.String()}, flags...)
		command := exec.CommandContext(m.t.Context(), m.command, args...)
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
				m.t.Log(lines.Text())
				killed = true
				break
			}
		}
		err = command.Wait()
		var ended *exec.ExitError
		switch {
		case killed:
			m.kills++
			require.ErrorAs(m.t, err, &ended)
		case errors.As(err, &ended) && ended.ExitCode() == int(exit.Refused):
			return "", said.String()
		default:
			require.NoError(m.t, err, said.String())
			return strings.TrimSpace(out.String()), ""
		}
	}
	require.FailNow(m.t, "it repeats its changes")
	return "", ""
}
