//go:build e2e

package features

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// startWorker starts samples/worker in a namespace, with a type of its own, and returns when it sleeps. The ledger has its answers.
func startWorker(t *testing.T, cluster *framework.Cluster, namespace, eventType string) {
	t.Helper()
	applyWorker(t, cluster, namespace, "worker.yaml", "report.requested", eventType)
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "reports"))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "worker", 0, asleep))
}

// applyWorker applies a file of samples/worker with another type and a short pause before sleep, and starts a ledger of its answers. An event
// takes half a second, so that a backlog outlasts the look of the autoscaler on a busy machine.
func applyWorker(t *testing.T, cluster *framework.Cluster, namespace, file, ofSample, eventType string) {
	t.Helper()
	sample := filepath.Join("..", "..", "samples", "worker")
	source, err := os.ReadFile(filepath.Join(sample, "worker.py"))
	require.NoError(t, err)
	program := strings.Replace(string(source), "WORK_SECONDS = 0.1", "WORK_SECONDS = 0.5", 1)
	manifest, err := os.ReadFile(filepath.Join(sample, file))
	require.NoError(t, err)
	image, err := cluster.RuntimeImage(t.Context(), "python312")
	require.NoError(t, err)
	here := strings.NewReplacer(
		"namespace: reports", "namespace: "+namespace, ".reports.svc", "."+namespace+".svc",
		"source: shop", "source: "+framework.Source, "types: ["+ofSample+"]", "types: ["+eventType+"]",
		"image: python:3.12-slim", "image: "+image,
		`cooldown-period: "60"`, `cooldown-period: "5"`,
	).Replace(string(manifest))
	require.NoError(t, cluster.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker"}, Data: map[string]string{"worker.py": program},
	}))
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	answers := framework.Subscription{
		Name: "answers", Namespace: namespace, Source: "reports", Type: "report.ready", Sink: framework.LedgerName, InFlight: 50,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, here+"---\n"+answers.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "answers"))
}

func TestAWorkloadThatIsNoFunctionSleepsAndWakesOnItsEvents(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	startWorker(t, cluster, namespace, "worker.jobs.v1")
	record, err := cluster.RecordReplicas(t.Context(), namespace, "worker")
	require.NoError(t, err)
	for _, events := range []int{1, 300} {
		keys := publishMany(t, cluster, "worker.jobs.v1", "job", events)
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
		require.NoError(t, err)
		requireConserved(t, cluster, namespace, "reports", keys)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "worker", 0, asleep))
	}
	moves := record.Moves()
	highest := int32(0)
	for _, move := range moves {
		highest = max(highest, move.Replicas)
	}
	require.Equal(t, int32(3), highest, "the backlog did not scale the workload out to its most replicas: %v", moves)
	// Within a wake KEDA may set the first replica again: it decides by a cache, and its write waits when its client is at its limit.
	require.Equal(t, 2, framework.Wakes(moves), "one wake for each backlog: %v", moves)
}

func TestAModelServerInAStatefulSetScalesOnTheDepthOfItsQueue(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	startModel(t, cluster, namespace, "model.queue.v1")
	awaitSet(t, cluster, namespace, "model", 0)
	keys := make([]string, 80)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", namespace, i)
		review := map[string]string{"key": keys[i], "text": "great quality"}
		require.NoError(t, cluster.Publish(t.Context(), framework.Event{ID: keys[i], Type: "model.queue.v1", Data: review}))
	}
	awaitSet(t, cluster, namespace, "model", 2)
	_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "reviews", keys)
	awaitSet(t, cluster, namespace, "model", 0)
}

// startModel starts samples/model with a type of its own, a short pause before sleep, reviews that take a while, and weights that go with
// the pod: the cluster makes no volumes.
func startModel(t *testing.T, cluster *framework.Cluster, namespace, eventType string) {
	t.Helper()
	sample := filepath.Join("..", "..", "samples", "model")
	files := map[string]string{}
	for _, name := range []string{"model.py", "reviews.csv", "model.yaml"} {
		content, err := os.ReadFile(filepath.Join(sample, name))
		require.NoError(t, err)
		files[name] = string(content)
	}
	image, err := cluster.RuntimeImage(t.Context(), "python312")
	require.NoError(t, err)
	manifest, claims, _ := strings.Cut(files["model.yaml"], "  volumeClaimTemplates:")
	_, subscription, _ := strings.Cut(claims, "---")
	here := strings.NewReplacer(
		"namespace: reviews", "namespace: "+namespace, ".reviews.svc", "."+namespace+".svc",
		"source: shop", "source: "+framework.Source, "types: [review.written]", "types: ["+eventType+"]",
		"image: python:3.12-slim", "image: "+image, `cooldown-period: "600"`, `cooldown-period: "5"`,
	).Replace(manifest + "        - name: weights\n          emptyDir: {}\n---" + subscription)
	slow := strings.Replace(files["model.py"], "with self.turn:", "with self.turn:\n            __import__('time').sleep(0.3)", 1)
	require.NoError(t, cluster.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"}, Data: map[string]string{"model.py": slow, "reviews.csv": files["reviews.csv"]},
	}))
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	answers := framework.Subscription{
		Name: "answers", Namespace: namespace, Source: "reviews", Type: "review.rated", Sink: framework.LedgerName, InFlight: 50,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, here+"---\n"+answers.YAML()))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "reviews"))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "answers"))
}

// awaitSet waits until a StatefulSet has exactly n replicas, all of them ready.
func awaitSet(t *testing.T, cluster *framework.Cluster, namespace, name string, n int32) {
	t.Helper()
	require.NoError(t, framework.Await(t.Context(), asleep, fmt.Sprintf("%d replicas of %s", n, name), func(ctx context.Context) (bool, error) {
		set := &appsv1.StatefulSet{}
		err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set)
		return err == nil && *set.Spec.Replicas == n && set.Status.Replicas == n && set.Status.ReadyReplicas == n, err
	}))
}

func TestJobsTakeTheEventsThatWaitAndEnd(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	applyWorker(t, cluster, namespace, "job.yaml", "report.ordered", "job.batch.v1")
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "batch"))
	keys := publishMany(t, cluster, "job.batch.v1", "batch", 60)
	_, err := cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "batch", keys)
	require.NoError(t, framework.Await(t.Context(), time.Minute, "the Jobs to end", func(ctx context.Context) (bool, error) {
		jobs := &batchv1.JobList{}
		if err := cluster.List(ctx, jobs, client.InNamespace(namespace)); err != nil || len(jobs.Items) == 0 {
			return false, err
		}
		succeeded := 0
		for _, job := range jobs.Items {
			if job.Status.Failed > 0 {
				return false, fmt.Errorf("Job %s failed", job.Name)
			}
			succeeded += int(job.Status.Succeeded)
		}
		return succeeded == len(jobs.Items), nil
	}))
}

func TestAWorkloadThatCannotBeScaledIsReportedAtItsService(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, `
apiVersion: v1
kind: Service
metadata: {name: jobs, annotations: {rouse.run/scale-target: deployment/absent}}
spec: {selector: {app: worker}, ports: [{port: 80}]}
`))
	var notes []string
	require.NoError(t, framework.Await(t.Context(), time.Minute, "an Event about the Service", func(ctx context.Context) (bool, error) {
		events := &eventsv1.EventList{}
		err := cluster.List(ctx, events, client.InNamespace(namespace))
		for _, event := range events.Items {
			if event.Type == corev1.EventTypeWarning && event.Regarding.Kind == "Service" && event.Reason == "CannotScale" {
				notes = append(notes, event.Note)
			}
		}
		return len(notes) > 0, err
	}))
	require.Equal(t, "Deployment absent does not exist in namespace "+namespace+": create it, or correct annotation rouse.run/scale-target", notes[0])
}

// The trigger is active on all but the last minute of a day.
func TestAFunctionHasTriggersBesideItsBacklog(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	office := framework.Function{
		Name: "office", Runtime: "nodejs22", Max: 3, Asleep: true, Source: "module.exports.main = () => 'ok'",
		Annotations: maps.Clone(framework.Fast()),
	}
	office.Annotations["rouse.run/triggers"] = `[{type: cron, metadata: {timezone: Etc/UTC, start: 0 0 * * *, end: 59 23 * * *, desiredReplicas: "2"}}]`
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, office.YAML()))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "office", 2, 2*time.Minute))

	office.Annotations["rouse.run/triggers"] = `[{type: prometheus, metadata: {serverAddress: "http://10.0.0.1"}}]`
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, office.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "office", "ConfigurationReady", "False", time.Minute))

	delete(office.Annotations, "rouse.run/triggers")
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, office.YAML()))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "office", 0, 2*time.Minute))
}

// siteProgram serves files, and ends on SIGTERM, which a process with the number 1 otherwise ignores.
const siteProgram = `import runpy, signal, sys; signal.signal(signal.SIGTERM, signal.default_int_handler); ` +
	`sys.argv[1:] = ['8080', '--directory', '/usr/share/nginx/html']; runpy.run_module('http.server', run_name='__main__')`

// startSite starts samples/site in a namespace, and returns when it sleeps. The cluster has no image of nginx, so that a server of files
// in Python has its place.
func startSite(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	sample := filepath.Join("..", "..", "samples", "site")
	page, err := os.ReadFile(filepath.Join(sample, "index.html"))
	require.NoError(t, err)
	manifest, err := os.ReadFile(filepath.Join(sample, "site.yaml"))
	require.NoError(t, err)
	image, err := cluster.RuntimeImage(t.Context(), "python312")
	require.NoError(t, err)
	here := strings.NewReplacer(
		"namespace: site", "namespace: "+namespace, `cooldown-period: "60"`, `cooldown-period: "5"`,
		"image: nginxinc/nginx-unprivileged:1.29-alpine", "image: "+image+`
          command: [python3, -c, "`+siteProgram+`"]`,
		"runAsNonRoot: true", "runAsNonRoot: true\n            runAsUser: 1000",
	).Replace(string(manifest))
	require.NoError(t, cluster.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pages"}, Data: map[string]string{"index.html": string(page)},
	}))
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, here))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "site", 0, asleep))
}

func TestAWorkloadThatKnowsNothingOfRouseSleepsAndWakesOnRequests(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	startSite(t, cluster, namespace)
	rule := framework.APIRule{Name: "site", Host: namespace, Service: "site", Gateway: framework.OwnGateway}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, rule.YAML()))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "site", "Ready", "Reconciled successfully", time.Minute))
	for name, call := range map[string]framework.Call{
		"its Service": {URL: "http://site/"}, "an APIRule": exposed(namespace+"."+framework.OwnDomain, "/", ""),
	} {
		woken := answerTo(t, caller, call)
		require.Equal(t, 200, woken.Status, "%s: %s", name, woken.Text)
		require.Contains(t, woken.Text, "A site that sleeps", name)
		require.Positive(t, woken.Waited, "%s: it slept", name)
		warm := answerTo(t, caller, call)
		require.Equal(t, 200, warm.Status, "%s: %s", name, warm.Text)
		require.Zero(t, warm.Waited, "%s: it was awake", name)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "site", 0, asleep), "it sleeps again")
	}
}

func TestSteadyLoadLosesNoRequestWhileAWorkloadSleepsAndWakes(t *testing.T) {
	const rounds = 2 // as many as the time allows; make soak-http runs a hundred
	for _, sleeper := range []framework.Sleeper{framework.BehindGateways, framework.ReportsLoad} {
		t.Run(string(sleeper), func(t *testing.T) {
			t.Parallel()
			cluster, namespace := connect(t)
			report, err := framework.SleepAndWake(t.Context(), cluster, namespace, sleeper, rounds, t.Logf)
			require.NoError(t, err)
			require.Zero(t, report.Failed, "%v", report.Failures)
			require.Zero(t, report.Doubles)
			require.Equal(t, rounds, report.Rounds)
		})
	}
}

// One request lasts for longer than everything that lets a workload sleep.
func TestAWorkloadStaysAwakeForARequestThatLasts(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	slow := `await new Promise(resolve => setTimeout(resolve, 45000)); return 'done'`
	require.NoError(t, cluster.ApplyWeb(t.Context(), namespace, framework.Web{Name: "behind", Answer: slow}))
	require.NoError(t, cluster.ApplyWeb(t.Context(), namespace, framework.Web{Name: "reports", Answer: slow, Reports: true}))
	for _, name := range []string{"behind", "reports"} {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, name, 0, asleep))
	}
	answers, err := caller.Do(t.Context(), framework.Call{URL: "http://behind/"}, framework.Call{URL: "http://reports/"})
	require.NoError(t, err)
	for _, answer := range answers {
		require.Equal(t, "done", answer.Text, "%d %s", answer.Status, answer.Error)
	}
}

func TestAWorkloadThatIsToReportItsLoadAndDoesNotStaysAwakeAndSaysWhy(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyWeb(t.Context(), namespace, framework.Web{Name: "silent", Answer: "return 'ok'", Silent: true}))
	require.NoError(t, framework.Await(t.Context(), 2*time.Minute, "an Event that says why it does not sleep", func(ctx context.Context) (bool, error) {
		events := &eventsv1.EventList{}
		err := cluster.List(ctx, events, client.InNamespace(namespace))
		for _, event := range events.Items {
			if event.Regarding.Name == "silent" && strings.Contains(event.Note, "HTTP load is not known") && strings.Contains(event.Note, "returned status 404") {
				return true, nil
			}
		}
		return false, err
	}))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "silent", 1, time.Minute))
}
