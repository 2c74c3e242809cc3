package alerts

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Limits are the thresholds of the rules, metrics.alerts of the chart.
type Limits struct {
	// BacklogEvents is the backlog above which one that grows for BacklogFor is an alert.
	BacklogEvents float64        `json:"backlogEvents"`
	BacklogFor    model.Duration `json:"backlogFor"`
	// DeadLetters may come into being within 15 minutes.
	DeadLetters float64 `json:"deadLetters"`
	// StorageRatio is the used share of a stream from which on there is a warning, StorageCriticalRatio a critical alert.
	StorageRatio         float64 `json:"storageRatio"`
	StorageCriticalRatio float64 `json:"storageCriticalRatio"`
	// FailureRatio is the share of a Subscription's attempts that may fail.
	FailureRatio float64 `json:"failureRatio"`
}

// defaultLimits are the chart's.
const defaultLimits = `{"backlogEvents":1000,"backlogFor":"15m","deadLetters":0,"storageRatio":0.8,"storageCriticalRatio":0.95,"failureRatio":0.5}`

// ParseLimits reads limits in JSON. The defaults stay for what is missing.
func ParseLimits(text string) (Limits, error) {
	var limits Limits
	for _, each := range []string{defaultLimits, text} {
		if each == "" {
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(each))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&limits); err != nil {
			return Limits{}, fmt.Errorf("thresholds of alerts: %w", err)
		}
	}
	return limits, nil
}

// lasting and asBacklog return how long a condition holds before its alert fires.
func lasting(d time.Duration) func(*Limits) time.Duration {
	return func(*Limits) time.Duration { return d }
}

func asBacklog(l *Limits) time.Duration { return time.Duration(l.BacklogFor) }

// Severities, as the chart's.
const (
	Warning  = "warning"
	Critical = "critical"
)

// rule is an alert of the chart. What find returns holds for the duration before it fires.
type rule struct {
	name, severity string
	holds          func(*Limits) time.Duration
	find           func(*history, *Limits) map[subject]float64
	// text returns what has happened, and what to do about it.
	text func(of subject, value float64) (summary, remedy string)
}

var rules = []rule{
	{
		"RouseBacklogGrows", Warning, asBacklog,
		func(h *history, l *Limits) map[subject]float64 {
			return where(h.latest(backlogEvents), func(of subject, n float64) bool { return n > l.BacklogEvents && h.slope(backlogEvents, of) > 0 })
		},
		func(of subject, n float64) (string, string) {
			return fmt.Sprintf("%.0f events of Subscription %s wait, and more come than are taken.", n, of),
				"Check the errors of its Function, its maximum of replicas and maxInFlight."
		},
	},
	{
		"RouseDeadLetters", Warning, lasting(0),
		func(h *history, l *Limits) map[subject]float64 { return above(h.increase(deadLetters), l.DeadLetters) },
		func(of subject, n float64) (string, string) {
			return fmt.Sprintf("%.0f events of Subscription %s became dead letters within 15 minutes: %s.", n, of, of.detail),
				"They are kept until they are redriven, purged or too old: repair the sink, and redrive them."
		},
	},
	{
		"RouseQuotaExceeded", Critical, lasting(0),
		func(h *history, _ *Limits) map[subject]float64 { return above(h.highest(quotaExceeded), 0) },
		func(of subject, _ float64) (string, string) {
			return "The events of namespace " + of.namespace + " take more of the stream than its share, and the oldest become dead letters.",
				"Repair its sinks, end its pauses, and redrive."
		},
	},
	{
		"RouseDeadLettersDropped", Critical, lasting(0),
		func(h *history, _ *Limits) map[subject]float64 { return above(h.increase(dropped), 0) },
		func(of subject, n float64) (string, string) {
			return fmt.Sprintf("%.0f dead letters of namespace %s were dropped: their stream is full, and the namespace holds most of it.", n, of.namespace),
				"Redrive or purge its dead letters, or raise deadLetters.maxBytes."
		},
	},
	fills("RouseStreamFills", Warning, func(l *Limits) float64 { return l.StorageRatio }),
	fills("RouseStreamNearlyFull", Critical, func(l *Limits) float64 { return l.StorageCriticalRatio }),
	{
		"RouseConsumerStuck", Warning, lasting(0),
		func(h *history, _ *Limits) map[subject]float64 { return above(h.increase(recoveries), 0) },
		func(of subject, _ float64) (string, string) {
			return "The consumer of Subscription " + of.String() + " did not deliver, and was recovered. Nothing is lost.",
				"If it happens again, check the NATS servers, and look for other clients of the consumer."
		},
	},
	{
		"RouseForeignConsumer", Warning, asBacklog,
		func(h *history, l *Limits) map[subject]float64 {
			return above(h.latest(foreignPending), l.BacklogEvents)
		},
		func(of subject, n float64) (string, string) {
			return fmt.Sprintf("Consumer %s, which is no Subscription's, keeps %.0f events.", of.name, n),
				"The stream keeps them until the consumer settles them. Delete it in NATS if nobody needs it, such as one that eventing-manager has left behind."
		},
	},
	{
		"RouseNoConnectionToNATS", Critical, lasting(2 * time.Minute),
		func(h *history, _ *Limits) map[subject]float64 { return zero(h.latest(connected)) },
		func(of subject, _ float64) (string, string) {
			return of.name + " has no connection to NATS: it refuses events and delivers none.", "Check the NATS servers, and the pod's log."
		},
	},
	{
		"RouseDeliveriesFail", Warning, lasting(15 * time.Minute),
		func(h *history, l *Limits) map[subject]float64 {
			return above(failureRatios(h.increase(deliveries)), l.FailureRatio)
		},
		func(of subject, ratio float64) (string, string) {
			return fmt.Sprintf("%.0f %% of the attempts to deliver to Subscription %s fail.", ratio*100, of), "Look at its events: each attempt has its reason."
		},
	},
	{
		"RouseSettingsRefused", Warning, lasting(2 * time.Minute),
		func(h *history, _ *Limits) map[subject]float64 { return zero(h.latest(settingsValid)) },
		func(of subject, _ float64) (string, string) {
			return of.name + " cannot use " + of.detail + ", the settings before stay in force.", "The Event on its ConfigMap says what to correct."
		},
	},
	{
		"RouseBacklogUnknown", Warning, lasting(10 * time.Minute),
		func(h *history, _ *Limits) map[subject]float64 { return above(h.increase(refreshErrors), 0) },
		func(of subject, _ float64) (string, string) {
			return of.name + " cannot read backlogs: KEDA keeps the replicas as they are, and Functions at zero sleep on.",
				"Check the eventbridges and the NATS servers, and the pod's log."
		},
	},
}

// fills is the rule of streams. Refused publishers keep one just below and above the watermark, so the highest fill of a while counts.
func fills(name, severity string, limit func(*Limits) float64) rule {
	return rule{
		name, severity, lasting(5 * time.Minute),
		func(h *history, l *Limits) map[subject]float64 {
			return where(h.highest(streamFill), func(_ subject, fill float64) bool { return fill >= limit(l) })
		},
		func(of subject, fill float64) (string, string) {
			return fmt.Sprintf("Stream %s is %.0f %% full.", of.name, fill*100),
				"Find the Subscription with the largest backlog, or raise the stream's maxBytes. Above stream.watermark publishers are refused (507); " +
					"in a full stream of dead letters the oldest of the namespace that holds most are deleted."
		},
	}
}

// failureRatios returns the share of failed attempts by Subscription.
func failureRatios(increase map[subject]float64) map[subject]float64 {
	ratios := map[subject]float64{}
	for of, n := range increase {
		if of.detail == failed {
			succeeded := subject{of.namespace, of.name, done}
			ratios[subject{of.namespace, of.name, ""}] = n / (n + increase[succeeded])
		}
	}
	return ratios
}

func where(values map[subject]float64, holds func(subject, float64) bool) map[subject]float64 {
	found := map[subject]float64{}
	for of, value := range values {
		if holds(of, value) {
			found[of] = value
		}
	}
	return found
}

func above(values map[subject]float64, limit float64) map[subject]float64 {
	return where(values, func(_ subject, value float64) bool { return value > limit })
}

func zero(values map[subject]float64) map[subject]float64 {
	return where(values, func(_ subject, value float64) bool { return value == 0 })
}

// String returns the name of a Subscription.
func (s subject) String() string { return s.namespace + "/" + s.name }
