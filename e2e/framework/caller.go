package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	callerName = "caller"
	// nodeRuntime runs the Functions that the framework makes for itself.
	nodeRuntime = "nodejs22"
)

// callerSource makes the calls that it is told, all at once or steadily until it is stopped, from a pod like any client's.
const callerSource = `
const http = require('http')
const net = require('net')
const { setTimeout: sleep } = require('timers/promises')
const kept = new http.Agent({ keepAlive: true, maxSockets: 4 })
let steady

function call({ url, method = 'GET', body, headers, keep = false, timeout = 90000 }) {
  const began = performance.now()
  return new Promise(resolve => {
    const end = result => resolve({ ms: Math.round(performance.now() - began), ...result })
    const request = http.request(url, { method, agent: keep ? kept : false, timeout, headers: { 'content-type': 'text/plain', ...headers } }, response => {
      let text = ''
      response.on('data', chunk => { text += chunk })
      response.on('error', error => end({ error: error.message }))
      response.on('end', () => end({ status: response.statusCode, text: text.slice(0, 1000), waited: Number(response.headers['rouse-cold-start'] ?? 0) }))
    })
    request.on('timeout', () => request.destroy(new Error('no answer in time')))
    request.on('error', error => end({ error: error.message }))
    request.end(body)
  })
}

function chat({ url, messages, timeout = 90000 }) {
  return new Promise(resolve => {
    const socket = new WebSocket(url)
    const answers = []
    const timer = setTimeout(() => { socket.close(); resolve({ error: 'no answer in time', answers }) }, timeout)
    const end = result => { clearTimeout(timer); resolve({ ...result, answers }) }
    socket.onopen = () => socket.send(messages[0])
    socket.onmessage = ({ data }) => {
      answers.push(data)
      if (answers.length === messages.length) socket.close(1000)
      else socket.send(messages[answers.length])
    }
    socket.onclose = () => end({})
    socket.onerror = event => end({ error: event.message ?? 'the WebSocket failed' })
  })
}

async function drive(run, keep) {
  while (!run.stopped) {
    const id = run.prefix + '-' + run.asked++
    const { status, error, text, waited } = await call({ url: run.url, headers: run.headers, method: 'POST', body: id, keep, timeout: 60000 })
    if (status !== 200 || text !== id) {
      run.failed++
      if (run.failures.length < 20) run.failures.push(new Date().toISOString() + ' ' + id + ' ' + (keep ? 'kept: ' : 'new: ') + (error ?? status + ' ' + text))
    }
    if (waited > 0) run.waited++
    await sleep(run.pause * (0.5 + Math.random()))
  }
}

function start({ url, headers, prefix, pause }) {
  steady = { url, headers, prefix, pause, asked: 0, failed: 0, waited: 0, failures: [], stopped: false }
  steady.ended = Promise.all([drive(steady, false), drive(steady, true), drive(steady, true)])
}

module.exports.main = async function (event) {
  const { calls, messages, url, start: begin, stop, resume } = event.data ?? {}
  if (calls) return Promise.all(calls.map(call))
  if (messages) return chat({ url, messages })
  if (begin) start(begin)
  if (stop) {
    steady.stopped = true
    await steady.ended
  }
  if (resume) {
    steady.stopped = false
    steady.ended = Promise.all([drive(steady, false), drive(steady, true), drive(steady, true)])
  }
  if (!steady) return 'ok'
  const { asked, failed, waited, failures } = steady
  return { asked, failed, waited, failures }
}
`

// Caller is a client in a pod of a namespace.
type Caller struct {
	cluster         *Cluster
	namespace, name string
}

// Call is one request of a Caller.
type Call struct {
	URL    string `json:"url"`
	Method string `json:"method,omitempty"`
	Body   string `json:"body,omitempty"`
	// Headers of the request; host is the one that it asks for.
	Headers map[string]string `json:"headers,omitempty"`
	// Timeout in milliseconds; 90 s when it is 0.
	Timeout int `json:"timeout,omitempty"`
}

// Called is what came of a Call.
type Called struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
	Error  string `json:"error"`
	Waited int    `json:"waited"` // milliseconds that an activator held it
	MS     int    `json:"ms"`
}

// Steady is what has become of a steady load.
type Steady struct {
	Asked    int      `json:"asked"`
	Failed   int      `json:"failed"`
	Waited   int      `json:"waited"` // those that an activator held
	Failures []string `json:"failures"`
}

// StartCaller makes a client in a namespace.
func (c *Cluster) StartCaller(ctx context.Context, namespace string) (*Caller, error) {
	return c.StartCallerAs(ctx, namespace, callerName)
}

// StartCallerAs is StartCaller for several clients, each with the name of its Function.
func (c *Cluster) StartCallerAs(ctx context.Context, namespace, name string) (*Caller, error) {
	if err := c.ApplyYAML(ctx, namespace, Function{Name: name, Runtime: nodeRuntime, Source: callerSource}.YAML()); err != nil {
		return nil, err
	}
	if err := c.AwaitCondition(ctx, namespace, FunctionGVK, name, "Running", "True", 2*time.Minute); err != nil {
		return nil, err
	}
	return &Caller{cluster: c, namespace: namespace, name: name}, nil
}

// Do makes all calls at once and returns when all are answered.
func (c *Caller) Do(ctx context.Context, calls ...Call) ([]Called, error) {
	var results []Called
	return results, c.send(ctx, map[string]any{"calls": calls}, &results)
}

// Chat sends messages over a WebSocket, each after the answer to the one before, and returns the answers.
func (c *Caller) Chat(ctx context.Context, url string, messages ...string) ([]string, error) {
	var result struct {
		Error   string   `json:"error"`
		Answers []string `json:"answers"`
	}
	if err := c.send(ctx, map[string]any{"url": url, "messages": messages}, &result); err != nil {
		return nil, err
	}
	if result.Error != "" {
		return result.Answers, fmt.Errorf("WebSocket %s: %s", url, result.Error)
	}
	return result.Answers, nil
}

// Steady begins to post to a call's URL, with its headers, over new and kept connections, with pauses of so many milliseconds on
// average. Each body is new and begins with the prefix; the answer has to be the same text.
func (c *Caller) Steady(ctx context.Context, to Call, prefix string, pause int) error {
	return c.send(ctx, map[string]any{"start": map[string]any{"url": to.URL, "headers": to.Headers, "prefix": prefix, "pause": pause}}, nil)
}

// Pause ends the steady load until Resume, and reports once its last request is answered.
func (c *Caller) Pause(ctx context.Context) (Steady, error) {
	var result Steady
	return result, c.send(ctx, map[string]any{"stop": true}, &result)
}

// Resume goes on with the steady load.
func (c *Caller) Resume(ctx context.Context) error {
	return c.send(ctx, map[string]any{"resume": true}, nil)
}

func (c *Caller) send(ctx context.Context, command map[string]any, result any) error {
	body, err := json.Marshal(command)
	if err != nil {
		return fmt.Errorf("encode a command to the caller: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	status, answer, err := c.cluster.RequestWithin(ctx, 2*time.Minute, http.MethodPost, c.namespace, c.name, "", header, body)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the caller answered %d: %s", status, answer)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(answer), result); err != nil {
		return fmt.Errorf("decode what the caller says: %w", err)
	}
	return nil
}
