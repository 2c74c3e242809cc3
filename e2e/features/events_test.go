//go:build e2e

package features

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/framework/sources"
)

func TestAPushedEventWakesAFunctionThatIsPolledEveryFiveMinutes(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "push.wake.v1", framework.Function{
		Name: "pushed", Max: 1, Source: framework.ReportingHandler(""), // polled fast until it sleeps for the first time
	})
	slow := framework.Function{
		Name: "pushed", Max: 1, Runtime: "nodejs22", Asleep: true, Source: framework.ReportingHandler(""),
		Annotations: map[string]string{"rouse.run/polling-interval": "300", "rouse.run/cooldown-period": "5"},
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, slow.YAML()))
	require.NoError(t, cluster.AwaitPollingInterval(t.Context(), namespace, "pushed", 300))

	published := time.Now()
	keys := publishMany(t, cluster, "push.wake.v1", "push", 1)
	entries, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
	require.NoError(t, err)
	woken := time.UnixMilli(int64(entries[keys[0]].At)).Sub(published)
	t.Logf("first byte %s after publish", woken.Round(time.Millisecond))
	require.Less(t, woken, 20*time.Second, "the push path did not wake the Function") // a benchmark measures the latency
}

func TestAThousandEventsAtZeroAreAllDeliveredWithoutFlapping(t *testing.T) {
	const events = 1000
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "burst.load.v1", framework.Function{
		Name: "burst", Max: 3, Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 100))"),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	record, err := cluster.RecordReplicas(ctx, namespace, "burst")
	require.NoError(t, err)

	keys := publishMany(t, cluster, "burst.load.v1", "burst", events)
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, 3*time.Minute)
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "burst", 0, 3*time.Minute))

	moves := record.Moves()
	t.Logf("replicas: %v", moves)
	highest := int32(0)
	for _, move := range moves {
		highest = max(highest, move.Replicas)
	}
	require.LessOrEqual(t, highest, int32(3))
	require.Greater(t, highest, int32(1), "the backlog did not scale the Function out")
	require.Equal(t, 1, framework.DirectionChanges(moves), "replicas went up and down more than once: %v", moves)
	// KEDA sets the first replica, and the HPA would look for the others up to 15 s later. Where KEDA is late, they wait for it.
	woken := slices.IndexFunc(moves, func(move framework.Move) bool { return move.Replicas > 0 })
	all := slices.IndexFunc(moves, func(move framework.Move) bool { return move.Replicas == 3 })
	require.Less(t, moves[all].At.Sub(moves[woken].At), 10*time.Second, "%v", moves)
}

func TestEventIsRetriedUntilItsFunctionSucceeds(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"throws": `globalThis.n = (globalThis.n ?? 0) + 1; if (globalThis.n < 3) throw new Error('not yet')`,
		// /tmp outlives the container's crash, because it is a volume with a read-only root.
		"crashes": `const fs = require('fs'); if (!fs.existsSync('/tmp/crashed')) { fs.writeFileSync('/tmp/crashed', ''); process.exit(1) }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, namespace := connect(t)
			require.NoError(t, cluster.StartLedger(t.Context(), namespace))
			eventType := name + ".first.v1"
			sleeper(t, cluster, namespace, eventType, framework.Function{
				Name: name, Max: 1, ReadOnlyRoot: true, Source: framework.ReportingHandler(body),
			})
			keys := publishMany(t, cluster, eventType, name, 1)
			_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
			require.NoError(t, err)
		})
	}
}

const publishers = 16 // concurrent publishing connections

func publishAll(ctx context.Context, cluster *framework.Cluster, eventType string, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	for _, key := range keys {
		group.Go(func() error {
			return cluster.Publish(ctx, framework.Event{ID: key, Type: eventType, Data: map[string]string{"key": key}})
		})
	}
	return group.Wait()
}

func TestABadEventIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	cluster, _ := connect(t)
	ok := http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Source": {"e2e"}, "Ce-Id": {"1"}, "Ce-Type": {"order.received.v1"},
		"Content-Type": {"application/json"},
	}
	with := func(key, value string) http.Header {
		header := ok.Clone()
		header.Set(key, value)
		return header
	}
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		want   string
	}{
		"not an event":               {header: http.Header{"Content-Type": {"application/json"}}, body: "{}", want: "unknown Message encoding"},
		"an event without a type":    {header: with("Ce-Type", ""), body: "{}", want: "type"},
		"a type with empty segments": {header: with("Ce-Type", "order..v1"), body: "{}", want: "event type cannot have empty segments after cleaning"},
		"more than 64 KiB":           {header: ok, body: `"` + strings.Repeat("x", 70_000) + `"`, want: "request body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer, err := cluster.Request(t.Context(), http.MethodPost, framework.System, "rouse-eventbridge", "publish", tc.header, []byte(tc.body))
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, status, answer)
			require.Contains(t, answer, tc.want)
		})
	}
}

func TestAnEventThatDoesNotFitTheOperatorsSchemaIsRefused(t *testing.T) {
	t.Parallel()
	cluster, _ := connect(t)
	const name = "event-schemas" // which the release's value eventbridge.schemas names
	require.NoError(t, cluster.ApplyYAML(t.Context(), framework.System, `
apiVersion: v1
kind: ConfigMap
metadata: {name: `+name+`}
data:
  checked.paid.v1.schema.json: '{"$id": "urn:e2e:paid", "type": "object", "required": ["amount"]}'
`))
	t.Cleanup(func() {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: framework.System, Name: name}}
		require.NoError(t, client.IgnoreNotFound(cluster.Delete(context.WithoutCancel(t.Context()), object)))
	})
	publish := func(event framework.Event) (int, string) {
		status, answer, err := cluster.TryPublish(t.Context(), event)
		require.NoError(t, err)
		return status, answer
	}
	unfit := framework.Event{ID: "1", Type: "checked.paid.v1", Data: map[string]string{"amuont": "7"}}
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Second) { // the kubelet's minute, and room
		status, answer := publish(unfit)
		if status == http.StatusBadRequest {
			require.Contains(t, answer, "the event does not fit the schema of checked.paid.v1: data: missing property 'amount'")
			break
		}
		require.True(t, time.Now().Before(deadline), "the bridge still answers %d: %s", status, answer)
	}
	status, answer := publish(framework.Event{ID: "2", Type: "checked.paid.v1", Data: map[string]string{"amount": "7"}})
	require.Equal(t, http.StatusNoContent, status, answer)
}

func TestAnEventWithoutASubscriptionIsAccepted(t *testing.T) {
	t.Parallel()
	cluster, _ := connect(t)
	event := framework.Event{ID: "stray", Type: "without.subscription.v1", Data: map[string]string{}}
	require.NoError(t, cluster.Publish(t.Context(), event), event.Type)
}

func TestFailedBuildReportsItsCauseAndIsNotRetriedInVain(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	jobs, err := cluster.RecordJobs(t.Context())
	require.NoError(t, err)
	server, err := sources.Start(t.Context(), cluster, namespace)
	require.NoError(t, err)
	require.NoError(t, server.PublishNPM(t.Context(), "native", map[string]string{
		"index.js": "module.exports = require('./build/Release/native.node')", "binding.gyp": `{"targets":[{"target_name":"native","sources":["native.c"]}]}`,
		"native.c": "int native;\n",
	}))
	serving := framework.Function{
		Name: "serving", Runtime: "nodejs22", Source: "module.exports.main = () => 'still ' + require('is-number/package.json').version",
		Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
	}
	config := framework.Secret("serverless-package-registry-config", nil, map[string]string{".npmrc": server.NPMRC()})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, config+"---\n"+serving.YAML()))

	for name, tc := range bad {
		function := framework.Function{Name: name, Runtime: tc.runtime, Source: handlers[tc.runtime], Dependencies: tc.dependencies}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "serving", "still 7.0.0", built))
	serving.Dependencies = `{"dependencies":{"is-number":"99.0.0"}}`
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, serving.YAML()))

	for name, tc := range bad {
		requireFailure(t, cluster, namespace, name, tc.condition, tc.says...)
	}
	requireFailure(t, cluster, namespace, "serving", "BuildReady", "is-number", "99.0.0")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "serving", "still 7.0.0", 10*time.Second), "the previous version does not serve")
	for name := range bad {
		requireTries(t, cluster, jobs, namespace, name, 1)
	}
	requireTries(t, cluster, jobs, namespace, "serving", 2)
}

var bad = map[string]struct {
	runtime, dependencies, condition string
	says                             []string
}{
	"no-json": {
		runtime: "nodejs22", dependencies: `{"dependencies": {"lodash" "4.17.21"}}`, condition: "ConfigurationReady",
		says: []string{"line 1", "It has to be a package.json"},
	},
	"no-requirement": {
		runtime: "python312", dependencies: "requests==2.32.5\n=== what is this\n", condition: "BuildReady",
		says: []string{"what is this"},
	},
	"no-such-package": {
		runtime: "nodejs22", dependencies: `{"dependencies":{"@rouse-run/there-is-no-such-package":"1.0.0"}}`, condition: "BuildReady",
		says: []string{"@rouse-run/there-is-no-such-package"},
	},
	"no-such-version": {
		runtime: "python312", dependencies: "requests==99.99\n", condition: "BuildReady", says: []string{"requests==99.99"},
	},
	"no-compiler": {
		runtime: "nodejs22", dependencies: `{"dependencies":{"@shop/native":"1.0.0"}}`, condition: "BuildReady",
		says: []string{"compiler", "runtimeImageOverride"},
	},
}

// Running Functions keep running while the registry is briefly unavailable. Builds wait, report the cause, and continue
// when the registry is back. No other feature may build at that time.
func TestBuildsWaitForARegistryThatIsDown(t *testing.T) {
	cluster, namespace := connect(t)
	runs := framework.Function{
		Name: "runs", Runtime: "nodejs22", Source: "module.exports.main = () => require('is-number/package.json').version",
		Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, runs.YAML()))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "runs", "7.0.0", built))

	scaleRegistry(t, cluster, 0)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, setRegistry(ctx, cluster, 1))
	})
	waits := runs
	waits.Name = "waits"
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, waits.YAML()))
	require.NoError(t, framework.Await(t.Context(), time.Minute, "a word about the registry", func(ctx context.Context) (bool, error) {
		conditions, err := cluster.Conditions(ctx, namespace, framework.FunctionGVK, "waits")
		return strings.Contains(conditions["BuildReady"].Message, "registry"), err
	}))
	conditions, err := cluster.Conditions(t.Context(), namespace, framework.FunctionGVK, "waits")
	require.NoError(t, err)
	t.Log(conditions["BuildReady"])
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "runs", "7.0.0", 10*time.Second))

	scaleRegistry(t, cluster, 1)
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "waits", "7.0.0", 2*time.Minute))
}

func scaleRegistry(t *testing.T, cluster *framework.Cluster, replicas int32) {
	t.Helper()
	require.NoError(t, setRegistry(t.Context(), cluster, replicas))
	require.NoError(t, framework.Await(t.Context(), time.Minute, "the registry to follow", func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: framework.System, Name: registryName}, deployment)
		return deployment.Status.Replicas == replicas && deployment.Status.ReadyReplicas == replicas, err
	}))
}

const registryName = "rouse-registry"

func setRegistry(ctx context.Context, cluster *framework.Cluster, replicas int32) error {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: registryName, Namespace: framework.System}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	_, err := cluster.Kube.AppsV1().Deployments(framework.System).UpdateScale(ctx, registryName, scale, metav1.UpdateOptions{})
	return err
}

// requireTries fails when a Function was built more often than expected: once for each of its specs, and once after
// each transient failure, such as a network outage.
func requireTries(t *testing.T, cluster *framework.Cluster, jobs *framework.Jobs, namespace, name string, specs int) {
	t.Helper()
	events, err := cluster.Events(t.Context(), namespace, name)
	require.NoError(t, err)
	passed := 0
	for _, event := range events {
		if event.Reason == "JobFailed" && strings.Contains(event.Message, "It is retried at") {
			passed++
		}
	}
	require.LessOrEqual(t, jobs.Of(namespace, name), specs+passed, "%s was built again although nothing changed", name)
}

// requireFailure waits until a condition is False with a cause, and for an event with the same message.
func requireFailure(t *testing.T, cluster *framework.Cluster, namespace, name, condition string, says ...string) {
	t.Helper()
	got, err := cluster.AwaitMessage(t.Context(), namespace, name, condition, "False", built, says...)
	require.NoError(t, err)
	t.Logf("%s: %s: %s", name, got.Reason, got.Message)
	require.NoError(t, framework.Await(t.Context(), 20*time.Second, "an event of "+name, func(ctx context.Context) (bool, error) {
		events, err := cluster.Events(ctx, namespace, name)
		return slices.ContainsFunc(events, func(event corev1.Event) bool {
			return event.Type == corev1.EventTypeWarning && event.Reason == got.Reason
		}), err
	}))
}

func TestNoEventIsLostWhenABridgeAndTheScalersAreKilledInABurst(t *testing.T) {
	const events = 600
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "killed.burst.v1", framework.Function{
		Name: "killed", Max: 3, Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 50))"),
	})

	first := publishMany(t, cluster, "killed.burst.v1", "before", events/2)
	_, err := cluster.AwaitLedger(t.Context(), namespace, first[:20], time.Minute)
	require.NoError(t, err, "the burst did not start")
	bridges, err := cluster.PodsOf(t.Context(), "eventbridge")
	require.NoError(t, err)
	require.NoError(t, cluster.KillPod(t.Context(), &bridges[0]))
	scalers, err := cluster.PodsOf(t.Context(), "scaler")
	require.NoError(t, err)
	for i := range scalers {
		require.NoError(t, cluster.KillPod(t.Context(), &scalers[i]))
	}
	second := publishMany(t, cluster, "killed.burst.v1", "after", events/2)

	all := slices.Concat(first, second)
	_, err = cluster.AwaitLedger(t.Context(), namespace, all, 4*time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "killed", all)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "killed", 0, 3*time.Minute))
}

func TestNATSMayRestartWhileFunctionsSleepAndWhileTheyWork(t *testing.T) {
	const events = 300
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "outage.sleeping.v1", framework.Function{Name: "sleeping", Max: 1, Source: framework.ReportingHandler("")})
	sleeper(t, cluster, namespace, "outage.working.v1", framework.Function{
		Name: "working", Max: 3, Source: framework.ReportingHandler("await new Promise(r => setTimeout(r, 500))"),
	})
	working := publishMany(t, cluster, "outage.working.v1", "working", events)
	_, err := cluster.AwaitLedger(t.Context(), namespace, working[:20], time.Minute)
	require.NoError(t, err, "the work did not start")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	record, err := cluster.RecordReplicas(ctx, namespace, "working")
	require.NoError(t, err)
	before, err := cluster.Ledger(t.Context(), namespace)
	require.NoError(t, err)
	servers, err := cluster.PodsOf(t.Context(), "nats")
	require.NoError(t, err)
	for i := range servers {
		require.NoError(t, cluster.KillPod(t.Context(), &servers[i]))
	}
	restarted := time.Now()
	sleeping := publishMany(t, cluster, "outage.sleeping.v1", "sleeping", 1)

	entries, err := cluster.AwaitLedger(t.Context(), namespace, slices.Concat(working, sleeping), 4*time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "working", working)
	requireConserved(t, cluster, namespace, "sleeping", sleeping)
	require.Less(t, len(before), events, "all events were handled before NATS restarted: the test has no effect")
	lastWork := lastEntry(entries, working)
	for _, move := range record.Moves() {
		require.False(t, move.Replicas == 0 && move.At.After(restarted) && move.At.Before(lastWork),
			"replicas fell to 0 at %s, before the last event at %s: a false zero", move.At, lastWork)
	}
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "working", 0, 3*time.Minute))
}

func TestPublishersAreRefusedAtOnceWhileNATSIsDown(t *testing.T) {
	cluster, _ := connect(t)
	require.NoError(t, cluster.CrashNATS(t.Context()))
	event := framework.Event{ID: "refused", Type: "outage.refused.v1", Data: map[string]string{}}
	require.NoError(t, framework.Await(t.Context(), time.Minute, "publishers to be refused", func(ctx context.Context) (bool, error) {
		started := time.Now()
		status, _, err := cluster.TryPublish(ctx, event)
		refused := status == http.StatusBadGateway || status == http.StatusServiceUnavailable
		return refused && time.Since(started) < 4*time.Second, err // publishers wait until the bridge detects the outage
	}))
	require.NoError(t, cluster.Publish(t.Context(), event), "publishing must recover")
}

func lastEntry(entries map[string]framework.Entry, keys []string) time.Time {
	last := 0.0
	for _, key := range keys {
		last = max(last, entries[key].At)
	}
	return time.UnixMilli(int64(last))
}

// requireConserved checks that published = acked + dead-lettered + pending once the backlog is settled, and logs the
// number of repeated deliveries.
func requireConserved(t *testing.T, cluster *framework.Cluster, namespace, subscription string, keys []string) {
	t.Helper()
	var balance framework.Balance
	require.NoError(t, framework.Await(t.Context(), 90*time.Second, "the backlog to be settled", func(ctx context.Context) (bool, error) {
		var err error
		balance, err = cluster.Balance(ctx, namespace, subscription)
		return balance.Pending == 0, err
	}))
	entries, err := cluster.Ledger(t.Context(), namespace)
	require.NoError(t, err)
	acked, duplicates := 0, 0
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			acked++
			duplicates += entry.Count - 1
		}
	}
	lost := len(keys) - acked - int(balance.DeadLetters) - int(balance.Pending)
	t.Logf("published=%d acked=%d deadlettered=%d pending=%d lost=%d duplicates=%d",
		len(keys), acked, balance.DeadLetters, balance.Pending, lost, duplicates)
	require.Zero(t, balance.DeadLetters, "a restart of ours is no reason to dead-letter an event")
	require.Zero(t, lost)
}

// A stand-in takes what the first events need until the Function's own pod is ready, also where it is killed meanwhile.
func TestAStandInServesAWakingFunctionAndNothingIsLostWhenItIsKilled(t *testing.T) {
	cluster, namespace := connect(t)
	ctx := t.Context()
	require.NoError(t, cluster.StartLedger(ctx, namespace))
	slow := framework.ReportingHandler("await new Promise(r => setTimeout(r, 200))")
	sleeper(t, cluster, namespace, "stand.in.v1", framework.Function{Name: "quick", Max: 1, Source: slow, Spec: framework.WithinStandIns()})
	require.NoError(t, cluster.AskForStandIns(ctx, namespace, "nodejs22=1"))
	for _, kill := range []bool{false, true} {
		_, err := cluster.AwaitStandIns(ctx, namespace, 1)
		require.NoError(t, err)
		watching, cancel := context.WithCancel(ctx)
		served, err := cluster.RecordServingStandIns(watching, namespace, func(pod *corev1.Pod) {
			if kill {
				_ = cluster.Delete(ctx, pod, client.GracePeriodSeconds(0))
			}
		})
		require.NoError(t, err)
		keys := publishMany(t, cluster, "stand.in.v1", "stand", 20)
		_, err = cluster.AwaitLedger(ctx, namespace, keys, 2*time.Minute)
		require.NoError(t, err)
		require.NotEmpty(t, served.Names(), "a stand-in serves")
		require.True(t, kill || len(served.Names()) == 1, "only one that is killed has a successor: %v", served.Names())
		requireConserved(t, cluster, namespace, "quick", keys)
		cancel()
		require.NoError(t, cluster.AwaitReplicas(ctx, namespace, "quick", 0, asleep))
	}
}

func TestAStandInTakesAFunctionFromItsControllerOnly(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.AskForStandIns(t.Context(), namespace, "python312=1"))
	waiting, err := cluster.AwaitStandIns(t.Context(), namespace, 1)
	require.NoError(t, err)
	caller, err := cluster.StartCaller(t.Context(), namespace)
	require.NoError(t, err)
	stranger := answerTo(t, caller, framework.Call{
		URL: "http://" + waiting[0].Status.PodIP + ":8080/.well-known/rouse/stand-in", Method: http.MethodPost,
		Body: `{"key": "guessed", "environment": {"FUNC_NAME": "mine"}}`,
	})
	require.Equal(t, http.StatusForbidden, stranger.Status)
}
