//go:build e2e

package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/e2e/framework"
)

// publisherSource publishes events at Kyma's address, each on a new connection and once: it does not repeat what fails.
const publisherSource = `
const http = require('http')
const state = { published: 0, failed: 0, failures: [], steady: false }
let ended

function publish({ url, type, source, prefix }) {
  const id = prefix + '-' + state.published++
  const event = { specversion: '1.0', id, source, type, datacontenttype: 'application/json', data: { key: id } }
  return new Promise(resolve => {
    const fail = reason => {
      state.failed++
      if (state.failures.length < 20) state.failures.push(new Date().toISOString() + ' ' + id + ' ' + reason)
      resolve()
    }
    const request = http.request(url, { method: 'POST', agent: false, timeout: 30000, headers: { 'content-type': 'application/cloudevents+json' } }, answer => {
      answer.resume()
      answer.on('error', error => fail(error.message))
      answer.on('end', () => answer.statusCode === 204 ? resolve() : fail('status ' + answer.statusCode))
    })
    request.on('timeout', () => request.destroy(new Error('no answer in time')))
    request.on('error', error => fail(error.message))
    request.end(JSON.stringify(event))
  })
}

// reachable reports whether a node leads the address to somebody: that takes a moment after its Service was made.
function reachable(url) {
  return new Promise(resolve => {
    const request = http.get(url, { agent: false, timeout: 1000 }, answer => { answer.resume(); resolve(true) })
    request.on('timeout', () => request.destroy(new Error('no answer in time')))
    request.on('error', () => resolve(false))
  })
}

async function steadily(command) {
  while (state.steady) {
    await publish(command)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

module.exports.main = async function (event) {
  const command = event.data ?? {}
  if (command.count) {
    const deadline = Date.now() + 60000
    while (!(await reachable(command.url)) && Date.now() < deadline) await new Promise(resolve => setTimeout(resolve, 50))
    const last = state.published + command.count
    const some = async () => { while (state.published < last) await publish(command) }
    await Promise.all(Array.from({ length: 8 }, some))
  }
  if (command.start) {
    state.steady = true
    ended = Promise.all([steadily(command), steadily(command)])
  }
  if (command.stop) {
    state.steady = false
    await ended
  }
  return state
}
`

// published is the result of the publishers so far.
type published struct {
	Published int      `json:"published"`
	Failed    int      `json:"failed"`
	Failures  []string `json:"failures"`
}

// publisher sends a command to the publishers.
func (m *move) publisher(command map[string]any) published {
	m.t.Helper()
	command["url"] = "http://" + publisherProxy + "." + kymaSystem + ".svc.cluster.local/publish"
	command["type"], command["source"], command["prefix"] = eventType, framework.Source, m.namespace
	body, err := json.Marshal(command)
	require.NoError(m.t, err)
	header := http.Header{"Content-Type": {"application/json"}}
	status, answer, err := m.cluster.RequestWithin(m.t.Context(), 5*time.Minute, http.MethodPost, m.namespace, "publisher", "", header, body)
	require.NoError(m.t, err)
	require.Equal(m.t, http.StatusOK, status, answer)
	var result published
	require.NoError(m.t, json.Unmarshal([]byte(answer), &result))
	return result
}

// startClients starts what publishes and calls, in pods of the namespace.
func (m *move) startClients() {
	m.t.Helper()
	ctx := m.t.Context()
	// Changes of the address for publishing must not replace its pod, which has the counts.
	fixed := map[string]any{"env": []corev1.EnvVar{{Name: "PUBLISHER_PROXY_ADDRESS", Value: "http://nowhere"}, {Name: "TRACE_COLLECTOR_ENDPOINT"}}}
	publisher := framework.Function{Name: "publisher", Runtime: "nodejs22", Source: publisherSource, Spec: fixed}
	require.NoError(m.t, m.cluster.ApplyYAML(ctx, m.namespace, publisher.YAML()))
	require.NoError(m.t, m.cluster.AwaitCondition(ctx, m.namespace, framework.FunctionGVK, "publisher", "Running", "True", timeout))
	var err error
	m.requests, err = m.cluster.StartLoad(ctx, m.namespace, "price")
	require.NoError(m.t, err)
	m.callers = map[string]*framework.Caller{}
	for _, rule := range []string{"rule", "older"} {
		m.callers[rule], err = m.cluster.StartCallerAs(ctx, m.namespace, "caller-"+rule)
		require.NoError(m.t, err)
	}
}

// callHosts has each caller call the host of its APIRule at an address.
func (m *move) callHosts(address string) {
	m.t.Helper()
	for rule, caller := range m.callers {
		call := framework.Call{URL: address + "/", Headers: map[string]string{"host": m.hostOf(rule) + "." + framework.OwnDomain}}
		require.NoError(m.t, framework.Await(m.t.Context(), time.Minute, "the host of APIRule "+rule, func(ctx context.Context) (bool, error) {
			call := call
			call.Method, call.Body = http.MethodPost, "here"
			answers, err := caller.Do(ctx, call)
			if err == nil && (answers[0].Status != http.StatusOK || answers[0].Text != call.Body) {
				err = fmt.Errorf("it answers %d %s %s", answers[0].Status, answers[0].Text, answers[0].Error)
			}
			return err == nil, err
		}))
		require.NoError(m.t, caller.Steady(m.t.Context(), call, rule, 50))
	}
}

// pauseHosts ends these calls, all of which have to have been answered.
func (m *move) pauseHosts() {
	m.t.Helper()
	for rule, caller := range m.callers {
		report, err := caller.Pause(m.t.Context())
		require.NoError(m.t, err)
		require.Positive(m.t, report.Asked, rule)
		require.Zero(m.t, report.Failed, "%s: %v", rule, report.Failures)
	}
}

// requireServed checks that no request of callers and publishers has failed, and returns how many events were published.
func (m *move) requireServed() int {
	m.t.Helper()
	report, err := m.requests.Report(m.t.Context())
	require.NoError(m.t, err)
	require.Zero(m.t, report.Failed, report.Failures)
	m.pauseHosts()
	published := m.publisher(map[string]any{"stop": true})
	require.Zero(m.t, published.Failed, published.Failures)
	return published.Published
}

// awaitDelivered waits until the ledger has each event that was published.
func (m *move) awaitDelivered(published int) {
	m.t.Helper()
	keys := make([]string, published)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", m.namespace, i)
	}
	_, err := m.cluster.AwaitLedger(m.t.Context(), m.namespace, keys, timeout)
	require.NoError(m.t, err)
}
