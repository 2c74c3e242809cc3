package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const loadName = "load"

// loadSource requests a URL on new connections, again and again, until it is stopped.
const loadSource = `
const http = require('http')
const runs = new Map()

function ask(run) {
  return new Promise(resolve => {
    const fail = reason => resolve(new Date().toISOString() + ' ' + reason)
    const request = http.get(run.target, { agent: false, timeout: 10000 }, response => {
      let text = ''
      response.on('data', chunk => { text += chunk })
      response.on('error', error => fail(error.message))
      response.on('end', () => {
        if (response.statusCode !== 200) return fail('status ' + response.statusCode + ': ' + text.slice(0, 200))
        run.answers[text] = (run.answers[text] ?? 0) + 1
        resolve()
      })
    })
    request.on('timeout', () => request.destroy(new Error('no answer within 10 s')))
    request.on('error', error => fail(error.message))
  })
}

async function drive(run) {
  while (!run.stopped) {
    const failure = await ask(run)
    run.asked++
    if (failure) {
      run.failed++
      if (run.failures.length < 20) run.failures.push(failure)
    }
    await new Promise(resolve => setTimeout(resolve, 25))
  }
}

module.exports.main = async function (event, context) {
  const { target, action } = event.data ?? {}
  if (!target) return 'ok'
  if (action === 'start') {
    const run = { target, asked: 0, failed: 0, failures: [], answers: {}, stopped: false }
    const limit = Date.now() + 30000 // a node knows a Service a moment after the API server does
    while (await ask(run) && Date.now() < limit) await new Promise(resolve => setTimeout(resolve, 50))
    run.ended = Promise.all([drive(run), drive(run)])
    runs.set(target, run)
  }
  const run = runs.get(target)
  if (action === 'stop') {
    run.stopped = true
    await run.ended
  }
  const { asked, failed, failures, answers } = run
  return { asked, failed, failures, answers }
}
`

// Load asks a Function without a break, from inside the cluster.
type Load struct {
	cluster           *Cluster
	namespace, target string
}

// LoadReport has the results of the requests so far.
type LoadReport struct {
	Asked    int            `json:"asked"`
	Failed   int            `json:"failed"`
	Failures []string       `json:"failures"` // the first few
	Answers  map[string]int `json:"answers"`  // how often each came
}

// StartLoad asks a Function some sixty times a second, on a new connection each, and returns when the first answers came.
func (c *Cluster) StartLoad(ctx context.Context, namespace, function string) (*Load, error) {
	// It publishes nothing: a change of an address must not replace its pod, which counts.
	spec := map[string]any{"env": []corev1.EnvVar{
		{Name: "PUBLISHER_PROXY_ADDRESS", Value: "http://nowhere"}, {Name: "TRACE_COLLECTOR_ENDPOINT"},
	}}
	if err := c.ApplyYAML(ctx, namespace, Function{Name: loadName, Runtime: nodeRuntime, Source: loadSource, Spec: spec}.YAML()); err != nil {
		return nil, err
	}
	if err := c.AwaitCondition(ctx, namespace, FunctionGVK, loadName, "Running", "True", time.Minute); err != nil {
		return nil, err
	}
	load := &Load{cluster: c, namespace: namespace, target: fmt.Sprintf("http://%s.%s.svc.cluster.local", function, namespace)}
	if _, err := load.send(ctx, "start"); err != nil {
		return nil, err
	}
	return load, Await(ctx, 30*time.Second, "the load on "+function, func(ctx context.Context) (bool, error) {
		report, err := load.Report(ctx)
		return len(report.Answers) > 0, err
	})
}

// Report returns the results of the requests so far.
func (l *Load) Report(ctx context.Context) (LoadReport, error) { return l.send(ctx, "report") }

// Stop ends the load and reports.
func (l *Load) Stop(ctx context.Context) (LoadReport, error) { return l.send(ctx, "stop") }

func (l *Load) send(ctx context.Context, action string) (report LoadReport, err error) {
	body, err := json.Marshal(map[string]string{"target": l.target, "action": action})
	if err != nil {
		return report, fmt.Errorf("encode a command to the load: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	status, answer, err := l.cluster.Request(ctx, http.MethodPost, l.namespace, loadName, "", header, body)
	if err != nil {
		return report, err
	}
	if status != http.StatusOK {
		return report, fmt.Errorf("the load answered %d: %s", status, answer)
	}
	if err := json.Unmarshal([]byte(answer), &report); err != nil {
		return report, fmt.Errorf("decode the report of the load: %w", err)
	}
	return report, nil
}
