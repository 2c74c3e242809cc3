package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tallySource counts each text that it receives.
const tallySource = `
const counts = new Map()
module.exports.main = async function (event) {
  if (event.data) counts.set(event.data, (counts.get(event.data) ?? 0) + 1)
  const doubles = [...counts].filter(([, n]) => n > 1).map(([text]) => text)
  return event.data ? 'ok' : { distinct: counts.size, doubles: doubles.slice(0, 20) }
}
`

// talliedAnswer reports a body to a count outside of the pod, and returns it.
const talliedAnswer = `
  const answer = await fetch('http://tally/', { method: 'POST', body, headers: { 'content-type': 'text/plain' } })
  if (!answer.ok) throw new Error('the tally answered ' + answer.status)
  await answer.text()
  return body
`

// Sleeper is what sleeps and wakes under a load.
type Sleeper string

const (
	// SleepingFunction is a Function.
	SleepingFunction Sleeper = "function"
	// BehindGateways is another workload, all of whose requests pass the gateways.
	BehindGateways Sleeper = "gateways"
	// ReportsLoad is another workload, whose pods report their load.
	ReportsLoad Sleeper = "pods"
)

// Sleepers are all of them.
func Sleepers() []Sleeper { return []Sleeper{SleepingFunction, BehindGateways, ReportsLoad} }

// Rounds is the result of a load whose sleeper slept and woke repeatedly.
type Rounds struct {
	Steady

	Rounds  int
	Doubles int // requests that were handled more than once
	Handled int
}

// SleepAndWake posts to a sleeper over new and persistent connections until it has slept and woken the given number of
// times. Each pause of the load starts and ends at a random moment, so that requests meet every step of the way to
// sleep.
func SleepAndWake(ctx context.Context, c *Cluster, namespace string, sleeper Sleeper, rounds int, progress func(string, ...any)) (Rounds, error) {
	var result Rounds
	caller, err := c.startTallied(ctx, namespace, sleeper)
	if err != nil {
		return result, err
	}
	record, err := c.RecordReplicas(ctx, namespace, "tallied")
	if err != nil {
		return result, err
	}
	if err := caller.Steady(ctx, Call{URL: "http://tallied/"}, "order", 20); err != nil {
		return result, err
	}
	for limit := time.Now().Add(time.Duration(rounds+2) * 2 * time.Minute); result.Rounds < rounds; {
		if time.Now().After(limit) {
			return result, fmt.Errorf("only %d of %d rounds in time: replicas %v", result.Rounds, rounds, record.Moves())
		}
		if result.Steady, err = caller.Pause(ctx); err != nil {
			return result, err
		}
		before := zeros(record.Moves())
		// A quarter of the pauses end before the Function sleeps, most others around that moment.
		time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Second))))
		if rand.IntN(4) > 0 {
			if err := c.AwaitReplicas(ctx, namespace, "tallied", 0, time.Minute); err != nil {
				return result, err
			}
			time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Second))))
		}
		if err := caller.Resume(ctx); err != nil {
			return result, err
		}
		time.Sleep(2*time.Second + time.Duration(rand.Int64N(int64(3*time.Second))))
		if zeros(record.Moves()) > before {
			result.Rounds++
			progress("round %d: asked=%d waited=%d failed=%d", result.Rounds, result.Asked, result.Waited, result.Failed)
		}
	}
	if result.Steady, err = caller.Pause(ctx); err != nil {
		return result, err
	}
	return result, c.readTally(ctx, namespace, &result)
}

func (c *Cluster) startTallied(ctx context.Context, namespace string, sleeper Sleeper) (*Caller, error) {
	if err := c.ApplyYAML(ctx, namespace, Function{Name: "tally", Runtime: nodeRuntime, Source: tallySource}.YAML()); err != nil {
		return nil, err
	}
	if err := c.startSleeper(ctx, namespace, sleeper); err != nil {
		return nil, err
	}
	if err := c.AwaitCondition(ctx, namespace, FunctionGVK, "tally", "Running", "True", 2*time.Minute); err != nil {
		return nil, err
	}
	return c.StartCaller(ctx, namespace)
}

// startSleeper starts what is tallied, and returns when it has served or sleeps.
func (c *Cluster) startSleeper(ctx context.Context, namespace string, sleeper Sleeper) error {
	fast := map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"}
	if sleeper != SleepingFunction {
		web := Web{Name: "tallied", Answer: talliedAnswer, Reports: sleeper == ReportsLoad, Annotations: fast}
		if err := c.ApplyWeb(ctx, namespace, web); err != nil {
			return err
		}
		return c.AwaitReplicas(ctx, namespace, "tallied", 0, 2*time.Minute)
	}
	source := "module.exports.main = async function (event) {\n  const body = event.data" + talliedAnswer + "}\n"
	tallied := Function{Name: "tallied", Runtime: nodeRuntime, Source: source, Asleep: true, Annotations: fast}
	if err := c.ApplyYAML(ctx, namespace, tallied.YAML()); err != nil {
		return err
	}
	return c.AwaitCondition(ctx, namespace, FunctionGVK, "tallied", "Running", "True", 2*time.Minute)
}

func (c *Cluster) readTally(ctx context.Context, namespace string, result *Rounds) error {
	status, answer, err := c.Request(ctx, http.MethodGet, namespace, "tally", "", nil, nil)
	if err != nil {
		return err
	}
	var tally struct {
		Distinct int      `json:"distinct"`
		Doubles  []string `json:"doubles"`
	}
	if err := json.Unmarshal([]byte(answer), &tally); err != nil || status != http.StatusOK {
		return fmt.Errorf("the tally answered %d: %s", status, answer)
	}
	result.Doubles, result.Handled = len(tally.Doubles), tally.Distinct
	return nil
}

// zeros counts how often there were no replicas.
func zeros(moves []Move) int {
	n := 0
	for _, move := range moves {
		if move.Replicas == 0 {
			n++
		}
	}
	return n
}

// Move is a change of a Deployment's desired replicas.
type Move struct {
	At       time.Time
	Replicas int32
	By       string // the field manager: KEDA, the HPA's controller or Rouse's
}

// String makes lists of moves short enough for a message.
func (m Move) String() string {
	return fmt.Sprintf("%s %d by %s", m.At.Format("15:04:05.000"), m.Replicas, m.By)
}

// Replicas records the desired replicas of a Deployment.
type Replicas struct {
	mu    sync.Mutex
	moves []Move
}

// RecordReplicas watches the Deployment until ctx ends. The first move is the initial state.
func (c *Cluster) RecordReplicas(ctx context.Context, namespace, name string) (*Replicas, error) {
	record := &Replicas{}
	err := c.watchEach(ctx, &appsv1.DeploymentList{}, func(_ watch.EventType, object runtime.Object) {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			record.add(ptr.Deref(deployment.Spec.Replicas, 1), lastToScale(deployment))
		}
	}, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	return record, err
}

func (r *Replicas) add(replicas int32, by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.moves); n == 0 || r.moves[n-1].Replicas != replicas {
		r.moves = append(r.moves, Move{At: time.Now(), Replicas: replicas, By: by})
	}
}

// lastToScale returns the manager of the replicas: who has written them last.
func lastToScale(deployment *appsv1.Deployment) string {
	for _, entry := range deployment.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas"`) && entry.Subresource != "status" {
			return entry.Manager
		}
	}
	return "nobody"
}

// Moves returns the recorded moves.
func (r *Replicas) Moves() []Move {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Move(nil), r.moves...)
}

// Wakes counts how often replicas were added to none.
func Wakes(moves []Move) int {
	wakes := 0
	for i := 1; i < len(moves); i++ {
		if moves[i-1].Replicas == 0 {
			wakes++
		}
	}
	return wakes
}

// DirectionChanges counts the changes of direction: 0 -> N -> 0 has one, flapping has more.
func DirectionChanges(moves []Move) int {
	changes, rising := 0, true
	for i := 1; i < len(moves); i++ {
		if up := moves[i].Replicas > moves[i-1].Replicas; i > 1 && up != rising {
			changes++
			rising = up
		} else if i == 1 {
			rising = up
		}
	}
	return changes
}

// AwaitReplicas waits until a Deployment has exactly n desired and actual replicas, of which none ends: a pod that ends still answers.
func (c *Cluster) AwaitReplicas(ctx context.Context, namespace, name string, n int32, timeout time.Duration) error {
	what := fmt.Sprintf("Deployment %s/%s to have %d replicas", namespace, name, n)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		deployment := &appsv1.Deployment{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
			return false, err
		}
		wanted, has, ending := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status.Replicas, ptr.Deref(deployment.Status.TerminatingReplicas, 0)
		if wanted != n || has != n || ending != 0 {
			return false, fmt.Errorf("wants %d, has %d, and %d that end", wanted, has, ending)
		}
		return n == 0 || deployment.Status.ReadyReplicas == n, nil
	})
}
