package v1alpha2_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

func TestDeliveryIsAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]string{
		"everything":              `paused: true, filter: {cel: "true", exact: {type: a}, any: [{prefix: {source: b}}], not: {suffix: {id: c}}}`,
		"an empty delivery":       `delivery: {}`,
		"an empty filter":         `filter: {}`,
		"the least":               `delivery: {maxAttempts: 1, maxInFlight: 1, rateLimit: {eventsPerSecond: 1}, timeout: 1ns, ttl: 1s, orderedBy: a}`,
		"the most":                `delivery: {maxAttempts: 1000, maxInFlight: 10000, rateLimit: {eventsPerSecond: 1000000}, timeout: 1h, ttl: 8760h, backoff: {delay: 1h, maxDelay: 24h}}`,
		"durations of many units": `delivery: {timeout: 1m30.5s, backoff: {policy: linear, delay: 1500us, maxDelay: 1h1m}}`,
		"a constant backoff":      `delivery: {backoff: {policy: constant}}`,
		"from now on":             `delivery: {startFrom: {position: new}}`,
		"from the beginning":      `delivery: {startFrom: {position: all}}`,
		"from a time":             `delivery: {startFrom: {position: time, time: "2026-01-02T03:04:05Z"}}`,
		"dead letters to a sink":  `delivery: {deadLetter: {sink: anything}}`,
		"from a sequence":         `delivery: {startFrom: {position: sequence, sequence: 1}}`,
	}
	for name, fields := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, subscription(t, namespace, `{sink: s, source: s, types: [t], `+fields+`}`))
			require.NoError(t, err)
		})
	}
}

func TestDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]struct{ fields, want string }{
		"dead letters without a sink":     {`delivery: {deadLetter: {}}`, `spec.delivery.deadLetter.sink: Required value`},
		"no attempt":                      {`delivery: {maxAttempts: 0}`, `spec.delivery.maxAttempts: Invalid value: 0: `},
		"too many attempts":               {`delivery: {maxAttempts: 1001}`, `spec.delivery.maxAttempts: Invalid value: 1001: `},
		"nothing in flight":               {`delivery: {maxInFlight: 0}`, `spec.delivery.maxInFlight: Invalid value: 0: `},
		"too much in flight":              {`delivery: {maxInFlight: 10001}`, `spec.delivery.maxInFlight: Invalid value: 10001: `},
		"no events per second":            {`delivery: {rateLimit: {eventsPerSecond: 0}}`, `spec.delivery.rateLimit.eventsPerSecond: Invalid value: 0: `},
		"a rate limit without a rate":     {`delivery: {rateLimit: {}}`, `spec.delivery.rateLimit.eventsPerSecond: Required value`},
		"a zero timeout":                  {`delivery: {timeout: 0s}`, `spec.delivery.timeout: Invalid value: "0s": must be more than 0s and at most 1h`},
		"a timeout too long":              {`delivery: {timeout: 61m}`, `spec.delivery.timeout: Invalid value: "61m": must be more than 0s and at most 1h`},
		"no time to live":                 {`delivery: {ttl: 999ms}`, `spec.delivery.ttl: Invalid value: "999ms": must be at least 1s`},
		"an invalid timeout":              {`delivery: {timeout: soon}`, `spec.delivery.timeout: Invalid value: "string": type conversion error`},
		"a unit that Go does not have":    {`delivery: {timeout: 1d}`, `spec.delivery.timeout: Invalid value: "string": type conversion error`},
		"a negative delay":                {`delivery: {backoff: {delay: -1s}}`, `spec.delivery.backoff.delay: Invalid value: "-1s": must be more than 0s and at most 24h`},
		"a first delay over a day":        {`delivery: {backoff: {delay: 25h}}`, `spec.delivery.backoff.delay: Invalid value: "25h": must be more than 0s and at most 24h`},
		"a delay over a day":              {`delivery: {backoff: {maxDelay: 25h}}`, `spec.delivery.backoff.maxDelay: Invalid value: "25h": must be more than 0s and at most 24h`},
		"an unknown policy":               {`delivery: {backoff: {policy: random}}`, `spec.delivery.backoff.policy: Unsupported value: "random": `},
		"a key that is not an attribute":  {`delivery: {orderedBy: Order-Id}`, `spec.delivery.orderedBy: Invalid value: "Order-Id": `},
		"a start without a position":      {`delivery: {startFrom: {sequence: 1}}`, `spec.delivery.startFrom.position: Required value`},
		"an unknown position":             {`delivery: {startFrom: {position: last}}`, `spec.delivery.startFrom.position: Unsupported value: "last": `},
		"a missing time":                  {`delivery: {startFrom: {position: time}}`, `spec.delivery.startFrom: Invalid value: `},
		"a time for another position":     {`delivery: {startFrom: {position: all, time: "2026-01-02T03:04:05Z"}}`, `spec.delivery.startFrom: Invalid value: `},
		"an invalid time":                 {`delivery: {startFrom: {position: time, time: yesterday}}`, `spec.delivery.startFrom.time: Invalid value: "yesterday": `},
		"a missing sequence":              {`delivery: {startFrom: {position: sequence}}`, `spec.delivery.startFrom: Invalid value: `},
		"a sequence for another position": {`delivery: {startFrom: {position: new, sequence: 1}}`, `spec.delivery.startFrom: Invalid value: `},
		"a sequence before the first":     {`delivery: {startFrom: {position: sequence, sequence: 0}}`, `spec.delivery.startFrom.sequence: Invalid value: 0: `},
		"a pause that is a word":          {`paused: soon`, `spec.paused: Invalid value: "string": `},
		"an expression that is a number":  {`filter: {cel: 1}`, `spec.filter.cel: Invalid value: "integer": `},
		"a nested filter that is a word":  {`filter: {not: never}`, `spec.filter.not: Invalid value: "string": `},
		"a value that is not a string":    {`filter: {exact: {type: 1}}`, `spec.filter.exact.type: Invalid value: "integer": `},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, subscription(t, namespace, `{sink: s, source: s, types: [t], `+tc.fields+`}`))
			causes := envtest.Causes(t, err)
			require.NotEmpty(t, causes)
			require.Contains(t, causes[0], tc.want)
		})
	}
}

func TestDeliveryIsDefaulted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	stored, err := create(t, subscription(t, namespace, `{sink: s, source: s, types: [t], delivery: {backoff: {delay: 1s}, retries: 3}}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"backoff": map[string]any{"policy": "exponential", "delay": "1s"}},
		stored.Object["spec"].(map[string]any)["delivery"], "nothing else is filled in, and what is not known is pruned")
}
