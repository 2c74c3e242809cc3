//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/internal/testing/never"
)

// echoes respond with the request body, or hello.
var echoes = map[string]string{
	"nodejs22": `
module.exports.main = async function (event) {
  await new Promise(resolve => setTimeout(resolve, 20))
  return typeof event.data === 'string' && event.data ? event.data : 'hello'
}
`,
	"python312": `
def main(event, context):
    data = event['extensions']['request'].body.read()
    if isinstance(data, bytes):
        data = data.decode()
    return data or 'hello'
`,
}

// httpSleepers applies Functions without Subscriptions, and waits until they sleep.
func httpSleepers(t *testing.T, cluster *framework.Cluster, namespace string, functions ...framework.Function) {
	t.Helper()
	for i := range functions {
		functions[i].Asleep = true
		if functions[i].Annotations == nil {
			functions[i].Annotations = framework.Fast()
		}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, functions[i].YAML()))
	}
	for i := range functions {
		name := functions[i].Name
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, name, "Running", "True", 3*time.Minute))
	}
	for i := range functions {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, functions[i].Name, 0, asleep))
	}
}

func startCaller(t *testing.T, cluster *framework.Cluster, namespace string) *framework.Caller {
	t.Helper()
	caller, err := cluster.StartCaller(t.Context(), namespace)
	require.NoError(t, err)
	return caller
}

func clusterIP(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	var service corev1.Service
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &service))
	return service.Spec.ClusterIP
}

func TestASleepingFunctionAnswersEveryHTTPClientOfTheCluster(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	var functions []framework.Function
	for runtime, source := range echoes {
		for _, by := range []string{"name", "short", "ip", "body"} {
			functions = append(functions, framework.Function{Name: by + "-" + runtime, Runtime: runtime, Source: source})
		}
	}
	httpSleepers(t, cluster, namespace, functions...)
	var calls []framework.Call
	for runtime := range echoes {
		calls = append(calls,
			framework.Call{URL: fmt.Sprintf("http://name-%s.%s.svc.cluster.local/", runtime, namespace)},
			framework.Call{URL: fmt.Sprintf("http://short-%s/some/path?x=1", runtime)},
			framework.Call{URL: fmt.Sprintf("http://%s/", clusterIP(t, cluster, namespace, "ip-"+runtime))},
			framework.Call{URL: fmt.Sprintf("http://body-%s/", runtime), Method: "POST", Body: strings.Repeat("order ", 100)})
	}
	answers, err := caller.Do(t.Context(), calls...)
	require.NoError(t, err)
	for i, answer := range answers {
		require.Empty(t, answer.Error, "%+v", calls[i])
		require.Equal(t, 200, answer.Status, "%+v: %s", calls[i], answer.Text)
		want := calls[i].Body
		if want == "" {
			want = "hello"
		}
		require.Equal(t, want, answer.Text, "%+v", calls[i])
		require.Positive(t, answer.Waited, "%+v was not answered by an activator", calls[i])
		t.Logf("%s answered after %d ms, %d of them waiting for a pod", calls[i].URL, answer.MS, answer.Waited)
	}
	for i := range functions {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, functions[i].Name, 0, asleep), "it sleeps again")
	}
}

func TestTwoHundredCallersAtOnceAreAllAnsweredFromZero(t *testing.T) {
	const callers = 200
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	httpSleepers(t, cluster, namespace, framework.Function{Name: "crowd", Runtime: "nodejs22", Source: echoes["nodejs22"], Max: 2})
	calls := make([]framework.Call, callers)
	for i := range calls {
		calls[i] = framework.Call{URL: "http://crowd/", Method: "POST", Body: fmt.Sprint("caller ", i)}
	}
	answers, err := caller.Do(t.Context(), calls...)
	require.NoError(t, err)
	for i, answer := range answers {
		require.Equal(t, framework.Called{Status: 200, Text: calls[i].Body, Waited: answer.Waited, MS: answer.MS}, answer)
	}
}

func TestStoppingAnActivatorLosesNoWaitingRequest(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	slow := `require('child_process').execSync('sleep 6')` + echoes["nodejs22"] // so that callers wait
	httpSleepers(t, cluster, namespace, framework.Function{Name: "slow", Runtime: "nodejs22", Source: slow})
	calls := make([]framework.Call, 20)
	for i := range calls {
		calls[i] = framework.Call{URL: "http://slow/", Method: "POST", Body: fmt.Sprint("caller ", i)}
	}
	stopped := make(chan error, 1)
	go func() {
		time.Sleep(time.Second) // callers wait by then; later ones do no harm
		stopped <- stopOneGateway(t.Context(), cluster)
	}()
	answers, err := caller.Do(t.Context(), calls...)
	require.NoError(t, err)
	require.NoError(t, <-stopped)
	for i, answer := range answers {
		require.Equal(t, framework.Called{Status: 200, Text: calls[i].Body, Waited: answer.Waited, MS: answer.MS}, answer)
	}
}

func stopOneGateway(ctx context.Context, cluster *framework.Cluster) error {
	pods, err := cluster.PodsOf(ctx, "gateway")
	if err != nil {
		return err
	}
	return cluster.Delete(ctx, &pods[0])
}

func TestEventsAndHTTPWakeOneFunction(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "both.ways.v1", framework.Function{Name: "both", Max: 1, Source: framework.ReportingHandler("")})

	answers, err := caller.Do(t.Context(), framework.Call{URL: "http://both/"})
	require.NoError(t, err)
	require.Equal(t, "ok", answers[0].Text, "%+v", answers[0])
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "both", 0, asleep))

	keys := publishMany(t, cluster, "both.ways.v1", "both", 3)
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
	require.NoError(t, err)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "both", 0, asleep))
}

// chatty echoes messages over a WebSocket.
const chatty = `package handler

import (
	"net/http"

	"github.com/coder/websocket"
)

func Handle(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, append([]byte("you said "), text...)); err != nil {
			return
		}
	}
}
`

func TestAWebSocketWakesASleepingFunction(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	httpSleepers(t, cluster, namespace, framework.Function{
		Name: "chatty", Runtime: goRuntime, Source: chatty, Dependencies: "require github.com/coder/websocket v1.8.15\n",
	})
	answers, err := caller.Chat(t.Context(), "ws://chatty/", "hello", "goodbye")
	require.NoError(t, err)
	require.Equal(t, []string{"you said hello", "you said goodbye"}, answers)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "chatty", 0, asleep), "it sleeps again")
}

func TestHTTPDoesNotWakeAFunctionThatOptsOut(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	annotations := framework.Fast()
	annotations["rouse.run/http-wake"] = "disabled"
	httpSleepers(t, cluster, namespace, framework.Function{
		Name: "shut", Runtime: "nodejs22", Source: echoes["nodejs22"], Annotations: annotations,
	})
	// A node that still has the rule of the ended pod sends the request nowhere, which no response shows.
	answers, err := caller.Do(t.Context(), framework.Call{URL: "http://shut/", Timeout: 5000})
	require.NoError(t, err)
	require.NotEmpty(t, answers[0].Error, "no server must respond: %+v", answers[0])
}

func TestRequestToAFunctionThatDoesNotStartFailsAtOnce(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	function := framework.Function{Name: "broken", Runtime: "nodejs22", Source: "throw new Error('no')", Asleep: true, Annotations: framework.Fast()}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "broken", "Running", "False", 2*time.Minute))
	var answer framework.Called
	require.NoError(t, framework.Await(t.Context(), 30*time.Second, "nodes to know the new Service", func(ctx context.Context) (bool, error) {
		answers, err := caller.Do(ctx, framework.Call{URL: "http://broken/"})
		if err != nil {
			return false, err
		}
		answer = answers[0]
		return answer.Error == "", nil
	}))
	require.Equal(t, 503, answer.Status, "%+v", answer)
	require.Contains(t, answer.Text, "does not run: HandlerFailed; its status says why")
}

// Not parallel: a client that is starved of CPU uses a connection that the ended pod has already closed, which no
// server can prevent, and a POST is not retried.
func TestSteadyLoadLosesNoRequestWhileItsFunctionSleepsAndWakes(t *testing.T) {
	const rounds = 3 // as many as the time allows; make soak-http runs a hundred
	cluster, namespace := connect(t)
	report, err := framework.SleepAndWake(t.Context(), cluster, namespace, framework.SleepingFunction, rounds, t.Logf)
	require.NoError(t, err)
	require.Zero(t, report.Failed, "%v", report.Failures)
	require.Zero(t, report.Doubles)
	require.Equal(t, rounds, report.Rounds)
}

// exposed returns a call of a host at the entrance.
func exposed(host, path, token string) framework.Call {
	call := framework.Call{URL: framework.Entrance + path, Headers: map[string]string{"host": host}}
	if token != "" {
		call.Headers["authorization"] = "Bearer " + token
	}
	return call
}

func TestAPIRuleLetsCallersWithATokenWakeAFunction(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	caller := startCaller(t, cluster, namespace)
	issuer, err := cluster.StartIssuer(t.Context(), namespace)
	require.NoError(t, err)
	httpSleepers(t, cluster, namespace, framework.Function{Name: "price", Runtime: "nodejs22", Source: echoes["nodejs22"]})
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, fmt.Sprintf(`apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata: {name: price}
spec:
  hosts: [%s]
  gateway: %s
  service: {name: price, port: 80}
  rules:
    - path: /open
      methods: [GET]
      noAuth: true
    - path: /gone
      methods: [GET]
      noAuth: true
      service: {name: missing, port: 80}
    - path: /{**}
      methods: [GET, POST]
      jwt:
        authentications: [{issuer: %[3]q, jwksUri: %[3]q}]
        authorizations: [{requiredScopes: [read]}]
`, namespace, framework.OwnGateway, issuer.URI)))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "price", "Error", "Attribute '.spec.rules[1]': Target service "+namespace+"/missing not found", time.Minute))

	reader, err := issuer.Token("someone", "read")
	require.NoError(t, err)
	writer, err := issuer.Token("someone", "write")
	require.NoError(t, err)
	host := namespace + "." + framework.OwnDomain
	calls := map[string]framework.Call{
		"a token": exposed(host, "/orders/1", reader), "no token": exposed(host, "/orders/1", ""),
		"another scope": exposed(host, "/orders/1", writer), "a bad token": exposed(host, "/orders/1", reader+"x"),
		"an open path": exposed(host, "/open", ""), "a rule without its Service": exposed(host, "/gone", ""),
		"an unknown host": exposed("unknown."+framework.OwnDomain, "/open", ""),
	}
	for name, want := range map[string]int{
		"no token": 403, "another scope": 403, "a bad token": 401, "an unknown host": 404, "a rule without its Service": 503,
	} {
		require.Equal(t, want, answerTo(t, caller, calls[name]).Status, name)
	}
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "price", 0, asleep), "who is refused wakes nobody")

	woken := answerTo(t, caller, calls["a token"])
	require.Equal(t, 200, woken.Status, woken.Text)
	require.Positive(t, woken.Waited, "it slept")
	require.Equal(t, 200, answerTo(t, caller, calls["an open path"]).Status)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "price", 0, asleep), "it sleeps again")
}

func TestASecondAPIRuleForAHostIsRefusedAndNamesTheFirst(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, framework.Function{Name: "price", Source: echoes["nodejs22"], Runtime: "nodejs22"}.YAML()))
	rule := func(name string) string {
		return framework.APIRule{Name: name, Host: namespace, Service: "price", Gateway: framework.OwnGateway}.YAML()
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, rule("first")))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "first", "Ready", "Reconciled successfully", time.Minute))
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, rule("second")))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "second", "Error", "Host is occupied by another APIRule "+namespace+"/first", time.Minute))
}

func answerTo(t *testing.T, caller *framework.Caller, call framework.Call) framework.Called {
	t.Helper()
	answers, err := caller.Do(t.Context(), call)
	require.NoError(t, err)
	require.Empty(t, answers[0].Error)
	return answers[0]
}

const held = 8 * time.Second // longer than the time to wake or poll a Function with fast settings

func TestFunctionsWakeAndSleepWithoutTheController(t *testing.T) {
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "absent.controller.v1", framework.Function{Name: "alone", Max: 1, Source: framework.ReportingHandler("")})
	require.NoError(t, cluster.Without(t.Context(), framework.System, "rouse-controller", func() error {
		keys := publishMany(t, cluster, "absent.controller.v1", "alone", 3)
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
		return errors.Join(err, cluster.AwaitReplicas(t.Context(), namespace, "alone", 0, asleep))
	}))
}

func TestEventsOfASleepingFunctionWaitForTheScaler(t *testing.T) {
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	sleeper(t, cluster, namespace, "absent.scaler.v1", framework.Function{Name: "waiting", Max: 1, Source: framework.ReportingHandler("")})
	record, err := cluster.RecordReplicas(t.Context(), namespace, "waiting")
	require.NoError(t, err)
	var keys []string
	var moves []framework.Move
	require.NoError(t, cluster.Without(t.Context(), framework.System, "rouse-scaler", func() error {
		keys = publishMany(t, cluster, "absent.scaler.v1", "waiting", 3)
		time.Sleep(held) // no event to await
		moves = record.Moves()
		return nil
	}))
	require.Len(t, moves, 1, "it was scaled without the scaler")
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, 2*time.Minute)
	require.NoError(t, err, "its events did not outlast the absence of the scaler")
	requireConserved(t, cluster, namespace, "waiting", keys)
}

func TestEventsWakeAFunctionAndAWorkloadWithoutKEDAWhichTakesOverWhenItIsBack(t *testing.T) {
	cluster, namespace := connect(t)
	startWorker(t, cluster, namespace, "absent.keda.v1")
	sleeper(t, cluster, namespace, "absent.keda.v1", framework.Function{Name: "early", Max: 1, Source: framework.ReportingHandler("")})
	record, err := cluster.RecordReplicas(t.Context(), namespace, "early")
	require.NoError(t, err)
	ofWorker, err := cluster.RecordReplicas(t.Context(), namespace, "worker")
	require.NoError(t, err)
	var keys []string
	require.NoError(t, cluster.Without(t.Context(), "keda", "keda-operator", func() error {
		keys = publishMany(t, cluster, "absent.keda.v1", "early", 3)
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
		return errors.Join(err, awaitAcked(t, cluster, namespace, "early", "reports"))
	}), "its events waited for KEDA")
	for name, record := range map[string]*framework.Replicas{"early": record, "worker": ofWorker} {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, name, 0, 3*time.Minute))
		require.Equal(t, 1, framework.DirectionChanges(record.Moves()), "two wakes of %s for one backlog: %v", name, record.Moves())
	}
}

// awaitAcked waits until nothing is pending for Subscriptions, and nothing is a dead letter of them.
func awaitAcked(t *testing.T, cluster *framework.Cluster, namespace string, subscriptions ...string) error {
	t.Helper()
	return framework.Await(t.Context(), time.Minute, "all events to be acked", func(ctx context.Context) (bool, error) {
		for _, subscription := range subscriptions {
			if balance, err := cluster.Balance(ctx, namespace, subscription); err != nil || balance != (framework.Balance{}) {
				return false, err
			}
		}
		return true, nil
	})
}

// The name is as long as that of a Service may be.
func TestAFunctionIsScaledAgainAfterItsScaledObjectWasPausedDeletedOrRenamed(t *testing.T) {
	t.Parallel()
	const eventType = "paused.deleted.v1"
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	long := framework.Function{Name: strings.Repeat("long-", 12) + "abc", Max: 1, Source: framework.ReportingHandler("")}
	sleeper(t, cluster, namespace, eventType, long)
	wakes := func(name string, keys []string) {
		_, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
		require.NoError(t, err)
		require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, name, 0, asleep))
	}
	named := func(kind schema.GroupVersionKind) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(namespace)
		object.SetName(long.Name)
		return object
	}
	scaled := named(framework.ScaledObjectGVK)
	annotate := func(value string) {
		patch := []byte(`{"metadata": {"annotations": {"autoscaling.keda.sh/paused": ` + value + `}}}`)
		require.NoError(t, cluster.Patch(t.Context(), scaled, client.RawPatch(types.MergePatchType, patch)))
	}

	annotate(`"true"`)
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.ScaledObjectGVK, long.Name, "Paused", "True", time.Minute))
	keys := publishMany(t, cluster, eventType, "paused", 1)
	never.Happens(t, func() bool {
		deployment := &appsv1.Deployment{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(scaled), deployment))
		return *deployment.Spec.Replicas > 0
	}, 5*time.Second, 200*time.Millisecond, "it is paused")
	annotate("null")
	wakes(long.Name, keys)

	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(scaled), scaled))
	before := scaled.GetUID()
	require.NoError(t, cluster.Delete(t.Context(), scaled))
	require.NoError(t, framework.Await(t.Context(), time.Minute, "another ScaledObject", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKeyFromObject(scaled), scaled)
		return err == nil && scaled.GetUID() != before, client.IgnoreNotFound(err)
	}))
	wakes(long.Name, publishMany(t, cluster, eventType, "deleted", 1))

	renamed := long
	renamed.Name = "renamed"
	require.NoError(t, cluster.Delete(t.Context(), named(framework.FunctionGVK)))
	sleeper(t, cluster, namespace, eventType, renamed)
	wakes(renamed.Name, publishMany(t, cluster, eventType, "renamed", 1))
}

// KEDA has decided to wake the Function by the time that it hangs, and sets its one replica when it goes on.
func TestAKEDAThatHangsInAWakeTakesNoReplicasAway(t *testing.T) {
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	source := framework.ReportingHandler("await new Promise(r => setTimeout(r, 100))")
	sleeper(t, cluster, namespace, "hanging.keda.v1", framework.Function{Name: "steady", Max: 3, Source: source})
	record, err := cluster.RecordReplicas(t.Context(), namespace, "steady")
	require.NoError(t, err)
	var keys []string
	require.NoError(t, cluster.WithHanging(t.Context(), "keda", "keda-operator", func() error {
		keys = publishMany(t, cluster, "hanging.keda.v1", "steady", 300)
		return framework.Await(t.Context(), time.Minute, "the controller to wake the Function", func(context.Context) (bool, error) {
			moves := record.Moves()
			return len(moves) > 0 && moves[len(moves)-1].Replicas > 0, nil
		})
	}))
	_, err = cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
	require.NoError(t, err)
	requireConserved(t, cluster, namespace, "steady", keys)
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "steady", 0, 3*time.Minute))
	require.Equal(t, 1, framework.DirectionChanges(record.Moves()), "replicas went up and down more than once: %v", record.Moves())
}
