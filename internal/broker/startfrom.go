package broker

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StartPolicy is where a consumer starts.
type StartPolicy string

// The policies. The empty one is StartNew.
const (
	StartNew      StartPolicy = ""
	StartAll      StartPolicy = "all"
	StartTime     StartPolicy = "time"
	StartSequence StartPolicy = "sequence"
)

// StartFrom is the first event that a new consumer gets.
type StartFrom struct {
	Policy   StartPolicy
	Time     time.Time // for StartTime
	Sequence uint64    // for StartSequence
}

// String is empty for StartNew, and otherwise what metadata keeps.
func (s StartFrom) String() string {
	switch s.Policy {
	case StartTime:
		return string(s.Policy) + " " + s.Time.UTC().Format(time.RFC3339Nano)
	case StartSequence:
		return string(s.Policy) + " " + strconv.FormatUint(s.Sequence, 10)
	default:
		return string(s.Policy)
	}
}

func (s StartFrom) apply(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.OptStartSeq, config.OptStartTime = 0, nil
	switch s.Policy {
	case StartAll:
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	case StartTime:
		config.DeliverPolicy = jetstream.DeliverByStartTimePolicy
		config.OptStartTime = &s.Time
	case StartSequence:
		config.DeliverPolicy = jetstream.DeliverByStartSequencePolicy
		config.OptStartSeq = max(s.Sequence, 1)
	default:
		config.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	return config
}
