package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// tallySource counts how often each text came.
const tallySource = `
const counts = new Map()
module.exports.main = async function (event) {
  if (event.data) counts.set(event.data, (counts.get(event.data) ?? 0) + 1)
  const doubles = [...counts].filter(([, n]) => n > 1).map(([text]) => text)
  return event.data ? 'ok' : { distinct: counts.size, doubles: doubles.slice(0, 20) }
}
`

// talliedSource has each call counted outside of its pod, and answers with its body.
const talliedSource = `
module.exports.main = async function (event) {
  const answer = await fetch('http://tally/', { method: 'POST', body: event.data, headers: { 'content-type': 'text/plain' } })
  if (!answer.ok) throw new Error('the tally answered ' + answer.status)
  await answer.text()
  return event.data
}
`

// Rounds is what came of a load that let its Function sleep and woke it, again and again.
type Rounds struct {
	Steady

	Rounds  int
	Doubles int // requests that were handled more than once
	Handled int
}

// SleepAndWake posts to a Function over new and kept connections until it has slept and woken so many times. Each pause of the load
// begins and ends at a random moment of the way to sleep, so that requests meet every step of it.
func SleepAndWake(ctx context.Context, c *Cluster, namespace string, rounds int, progress func(string, ...any)) (Rounds, error) {
	var result Rounds
	caller, err := c.startTallied(ctx, namespace)
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
		// A quarter of the pauses ends before the Function sleeps, most around the moment when it does.
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

func (c *Cluster) startTallied(ctx context.Context, namespace string) (*Caller, error) {
	manifests := Function{Name: "tally", Runtime: nodeRuntime, Source: tallySource}.YAML() + "---\n" + Function{
		Name: "tallied", Runtime: nodeRuntime, Source: talliedSource, Asleep: true,
		Annotations: map[string]string{"rouse.run/polling-interval": "1", "rouse.run/cooldown-period": "1"},
	}.YAML()
	if err := c.ApplyYAML(ctx, namespace, manifests); err != nil {
		return nil, err
	}
	for _, name := range []string{"tally", "tallied"} {
		if err := c.AwaitCondition(ctx, namespace, FunctionGVK, name, "Running", "True", 2*time.Minute); err != nil {
			return nil, err
		}
	}
	return c.StartCaller(ctx, namespace)
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

// zeros counts how often there was no replica.
func zeros(moves []Move) int {
	n := 0
	for _, move := range moves {
		if move.Replicas == 0 {
			n++
		}
	}
	return n
}
