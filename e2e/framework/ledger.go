package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// LedgerName is the name of the Function that counts what arrived.
const LedgerName = "ledger"

// ledgerSource keeps every event's data by its key; GET returns them all.
const ledgerSource = `
const seen = new Map()
module.exports.main = async function (event, context) {
  if (!event['ce-type']) return { entries: [...seen.values()] }
  const entry = seen.get(event.data.key) ?? { ...event.data, count: 0 }
  entry.count++
  seen.set(event.data.key, entry)
}
`

// Entry is one distinct key that the ledger has seen.
type Entry struct {
	Key   string  `json:"key"`
	At    float64 `json:"at"`    // when the handler saw the event first, Unix milliseconds
	Count int     `json:"count"` // how often it was reported; more than once is a duplicate
}

// ReportingHandler is a handler that reports each event it handles to the ledger, under its data's key.
// The body runs first and may answer, wait or throw.
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

// StartLedger makes the ledger in a namespace and waits until it runs.
func (c *Cluster) StartLedger(ctx context.Context, namespace string) error {
	manifest := Function{Name: LedgerName, Runtime: nodeRuntime, Source: ledgerSource}.YAML() + "---\n" +
		Subscription{Name: LedgerName, Namespace: namespace, Type: "ledger.entry.v1", Sink: LedgerName, InFlight: 50}.YAML()
	if err := c.ApplyYAML(ctx, namespace, manifest); err != nil {
		return err
	}
	return c.AwaitCondition(ctx, namespace, FunctionGVK, LedgerName, "Running", "True", 2*time.Minute)
}

// Ledger reads what the ledger of a namespace has seen.
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

// AwaitLedger waits until the ledger has seen all keys.
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
