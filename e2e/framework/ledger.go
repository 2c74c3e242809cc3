package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LedgerName is the name of the Function that counts received events.
const LedgerName = "ledger"

// ledgerSource stores every event's data by its key; GET returns all.
const ledgerSource = `
const seen = new Map()
module.exports.main = async function (event, context) {
  if (!event['ce-type']) return { entries: [...seen.values()] }
  const entry = seen.get(event.data.key) ?? { ...event.data, count: 0 }
  entry.count++
  seen.set(event.data.key, entry)
}
`

// Entry is a distinct key in the ledger.
type Entry struct {
	Key   string  `json:"key"`
	At    float64 `json:"at"`    // first report, in Unix milliseconds
	Count int     `json:"count"` // number of reports; more than one are duplicates
}

// ReportingHandler returns a handler that reports each event to the ledger, under its data's key. The body runs first
// and may respond, wait or throw.
func ReportingHandler(body string) string {
	return `
module.exports.main = async function (event, context) {
  const at = performance.timeOrigin + performance.now()
  if (!event['ce-type']) return 'ok'
  ` + body + `
  await event.emitCloudEvent('ledger.entry.v1', '` + Source + `', { key: event.data.key, at })
}
`
}

// ReportingHandlerInGo is ReportingHandler for a Function in Go.
const ReportingHandlerInGo = `package handler

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)

func Handle(ctx context.Context, event function.Event) error {
	at := float64(time.Now().UnixMicro()) / 1000
	if event.Type == "" {
		return nil
	}
	var data struct {
		Key string ` + "`" + `json:"key"` + "`" + `
	}
	if err := event.DataAs(&data); err != nil {
		return err
	}
	return function.Emit(ctx, "ledger.entry.v1", "` + Source + `", map[string]any{"key": data.Key, "at": at})
}
`

// ReportingHandlerInPython is ReportingHandler for a Function of python314.
const ReportingHandlerInPython = `import time

import sdk

def main():
    at = time.time() * 1000
    event = sdk.get_cloud_event()
    if event is not None:
        sdk.emit_cloud_event('ledger.entry.v1', '` + Source + `', {'key': event.data['key'], 'at': at})
    return 'ok'
`

// StartLedger creates the ledger in a namespace and waits until it runs.
func (c *Cluster) StartLedger(ctx context.Context, namespace string) error {
	manifest := Function{Name: LedgerName, Runtime: nodeRuntime, Source: ledgerSource}.YAML() + "---\n" +
		Subscription{Name: LedgerName, Namespace: namespace, Type: "ledger.entry.v1", Sink: LedgerName, InFlight: 50}.YAML()
	if err := c.ApplyYAML(ctx, namespace, manifest); err != nil {
		return err
	}
	return c.AwaitCondition(ctx, namespace, FunctionGVK, LedgerName, "Running", "True", 2*time.Minute)
}

// Ledger returns the entries of a namespace's ledger.
func (c *Cluster) Ledger(ctx context.Context, namespace string) (map[string]Entry, error) {
	status, answer, err := c.Request(ctx, http.MethodGet, namespace, LedgerName, "", nil, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("ledger answered %d: %s", status, answer)
	}
	var report struct {
		Entries []Entry `json:"entries"`
	}
	if err := json.Unmarshal([]byte(answer), &report); err != nil {
		return nil, fmt.Errorf("decode the ledger: %w", err)
	}
	entries := make(map[string]Entry, len(report.Entries))
	for _, entry := range report.Entries {
		entries[entry.Key] = entry
	}
	return entries, nil
}

// AwaitLedger waits until the ledger contains all keys.
func (c *Cluster) AwaitLedger(ctx context.Context, namespace string, keys []string, timeout time.Duration) (map[string]Entry, error) {
	var entries map[string]Entry
	missing := ""
	err := Await(ctx, timeout, fmt.Sprintf("%d keys in the ledger", len(keys)), func(ctx context.Context) (bool, error) {
		var err error
		if entries, err = c.Ledger(ctx, namespace); err != nil {
			return false, err
		}
		for _, key := range keys {
			if _, ok := entries[key]; !ok {
				missing = key
				return false, fmt.Errorf("%d of %d seen; %s is missing", len(entries), len(keys), missing)
			}
		}
		return true, nil
	})
	return entries, err
}

const loadName = "load"

// loadSource requests a URL on new connections repeatedly until it is stopped.
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

// Load sends requests to a Function without a pause, from inside the cluster.
type Load struct {
	cluster           *Cluster
	namespace, target string
}

// LoadReport has the results of the requests so far.
type LoadReport struct {
	Asked    int            `json:"asked"`
	Failed   int            `json:"failed"`
	Failures []string       `json:"failures"` // the first few
	Answers  map[string]int `json:"answers"`  // number of each response
}

// StartLoad sends about sixty requests a second to a Function, each on a new connection, and returns after the first
// response.
func (c *Cluster) StartLoad(ctx context.Context, namespace, function string) (*Load, error) {
	// It has a fixed address for publishing: a change of the address must not replace its pod, which holds the counts.
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

// Stop ends the load and returns its results.
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

// Percentile returns the smallest value that p percent of the values do not exceed, or 0 without values.
func Percentile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
