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

// DefaultLimits are the chart's.
const DefaultLimits = `{"backlogEvents":1000,"backlogFor":"15m","deadLetters":0,"storageRatio":0.8,"storageCriticalRatio":0.95,"failureRatio":0.5}`

// ParseLimits reads limits in JSON. The defaults stay for what is missing.
func ParseLimits(text string) (Limits, error) {
	var limits Limits
	for _, each := range []string{DefaultLimits, text} {
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
