package framework

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Event is one CloudEvent to publish.
type Event struct {
	ID   string
	Type string
	Data any
}

// Publish posts the event to the eventbridge's Service in binary mode and returns when it is stored. Responses that
// request a retry (429, 5xx) are retried with the same id for some minutes, as a reliable publisher does.
func (c *Cluster) Publish(ctx context.Context, event Event) error {
	_, err := c.PublishCounting(ctx, event)
	return err
}

// PublishCounting is like Publish, and returns the number of failed attempts.
func (c *Cluster) PublishCounting(ctx context.Context, event Event) (refused int, err error) {
	for deadline := time.Now().Add(slack * time.Minute); ; refused++ {
		status, answer, err := c.TryPublish(ctx, event)
		if err == nil && status == http.StatusNoContent {
			return refused, nil
		}
		retryable := err != nil || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
		if !retryable || time.Now().After(deadline) {
			return refused, errors.Join(fmt.Errorf("publish %s %s: status %d: %s", event.Type, event.ID, status, answer), err)
		}
		select {
		case <-ctx.Done():
			return refused, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// TryPublish posts the event once and returns the response.
func (c *Cluster) TryPublish(ctx context.Context, event Event) (status int, answer string, err error) {
	body, err := json.Marshal(event.Data)
	if err != nil {
		return 0, "", fmt.Errorf("encode data: %w", err)
	}
	header := http.Header{
		"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Source": {Source},
		"Ce-Id": {event.ID}, "Ce-Type": {event.Type}, "Ce-Time": {time.Now().UTC().Format(time.RFC3339Nano)},
	}
	return c.Request(ctx, http.MethodPost, System, "rouse-eventbridge", "publish", header, body)
}

// Request sends one HTTP request to a Service's port 80 through the API server's proxy.
func (c *Cluster) Request(
	ctx context.Context, method, namespace, service, path string, header http.Header, body []byte,
) (status int, answer string, err error) {
	return c.RequestWithin(ctx, 30*time.Second, method, namespace, service, path, header, body)
}

// RequestWithin is Request with a timeout.
func (c *Cluster) RequestWithin(
	ctx context.Context, limit time.Duration, method, namespace, service, path string, header http.Header, body []byte,
) (status int, answer string, err error) {
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		return 0, "", fmt.Errorf("make a transport: %w", err)
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/services/%s:80/proxy/%s",
		strings.TrimSuffix(c.Config.Host, "/"), namespace, service, path)
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("make a request: %w", err)
	}
	request.Header = header
	response, err := (&http.Client{Transport: transport, Timeout: limit}).Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return response.StatusCode, "", fmt.Errorf("read the answer: %w", err)
	}
	return response.StatusCode, string(text), nil
}

const (
	callerName = "caller"
	// nodeRuntime is the runtime of the framework's own Functions.
	nodeRuntime = "nodejs22"
)

// callerSource makes the requested calls, all at once or steadily until it is stopped, from a pod like any client's.
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
	// Headers are the request headers; host sets the Host header.
	Headers map[string]string `json:"headers,omitempty"`
	// Timeout is the timeout in milliseconds; 90 s when it is 0.
	Timeout int `json:"timeout,omitempty"`
}

// Called is the result of a Call.
type Called struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
	Error  string `json:"error"`
	Waited int    `json:"waited"` // milliseconds that an activator held it
	MS     int    `json:"ms"`
}

// Steady is the result of a steady load.
type Steady struct {
	Asked    int      `json:"asked"`
	Failed   int      `json:"failed"`
	Waited   int      `json:"waited"` // requests that an activator held
	Failures []string `json:"failures"`
}

// StartCaller creates a client in a namespace.
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

// Do makes all calls concurrently and returns when all are complete.
func (c *Caller) Do(ctx context.Context, calls ...Call) ([]Called, error) {
	var results []Called
	return results, c.send(ctx, map[string]any{"calls": calls}, &results)
}

// Chat sends messages over a WebSocket, each after the response to the previous one, and returns the responses.
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

// Steady starts to post to a call's URL, with its headers, over new and persistent connections, with pauses of the
// given milliseconds on average. Each body is unique and begins with the prefix; the response has to be the same text.
func (c *Caller) Steady(ctx context.Context, to Call, prefix string, pause int) error {
	return c.send(ctx, map[string]any{"start": map[string]any{"url": to.URL, "headers": to.Headers, "prefix": prefix, "pause": pause}}, nil)
}

// Pause pauses the steady load until Resume, and returns its results once the last request is complete.
func (c *Caller) Pause(ctx context.Context) (Steady, error) {
	var result Steady
	return result, c.send(ctx, map[string]any{"stop": true}, &result)
}

// Resume continues the steady load.
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
		return fmt.Errorf("decode the caller's response: %w", err)
	}
	return nil
}

// Outside is a client that uses the Gateway of the features' APIRules, at the address in its status.
type Outside struct {
	address string // host and port
	domain  string
	client  *http.Client
}

// Outside returns a client for the first listener of the Gateway.
func (c *Cluster) Outside(ctx context.Context) (*Outside, error) {
	gateway, err := c.object(ctx, gatewayNamespace, gatewayGVK, gatewayName)
	if err != nil {
		return nil, fmt.Errorf(`find a way in (bring the cluster up with "go run -C e2e/cluster . up --envoy-gateway"): %w`, err)
	}
	address, domain, err := entryOf(gateway)
	if err != nil {
		return nil, fmt.Errorf("read the Gateway %s/%s: %w", gatewayNamespace, gatewayName, err)
	}
	return &Outside{address: address, domain: domain, client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}, nil
}

func entryOf(gateway *unstructured.Unstructured) (address, domain string, err error) {
	first := func(fields ...string) map[string]any {
		list, _, _ := unstructured.NestedSlice(gateway.Object, fields...)
		if len(list) == 0 {
			return nil
		}
		item, _ := list[0].(map[string]any)
		return item
	}
	host, _, _ := unstructured.NestedString(first("status", "addresses"), "value")
	port, _, _ := unstructured.NestedInt64(first("spec", "listeners"), "port")
	hostname, _, _ := unstructured.NestedString(first("spec", "listeners"), "hostname")
	domain, wildcard := strings.CutPrefix(hostname, "*.")
	if host == "" || port == 0 || !wildcard {
		return "", "", errors.New("it needs an address in its status, and a first listener with a port and a hostname like *.example.com")
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), domain, nil
}

// Get requests the host with that label at the Gateway. An empty token sends none.
func (o *Outside) Get(ctx context.Context, label, token string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.address+"/", nil)
	if err != nil {
		return 0, "", fmt.Errorf("make a request: %w", err)
	}
	request.Host = label + "." + o.domain
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask %s at %s: %w", request.Host, o.address, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, "", fmt.Errorf("read the response of %s: %w", request.Host, err)
	}
	return response.StatusCode, string(body), nil
}

// AwaitStatus sends requests without a token until a response has the status: an implementation of Gateway API may
// accept a route before its proxies have loaded it.
func (o *Outside) AwaitStatus(ctx context.Context, label string, want int, timeout time.Duration) error {
	what := fmt.Sprintf("%s to answer %d", label, want)
	return Await(ctx, timeout, what, func(ctx context.Context) (bool, error) {
		status, answer, err := o.Get(ctx, label, "")
		if err == nil && status != want {
			err = fmt.Errorf("it answers %d: %s", status, answer)
		}
		return err == nil, err
	})
}
