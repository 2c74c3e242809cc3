package settings

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Settings are what a function-config.yaml says. Nil and zero leave what the flags of a process say.
type Settings struct {
	// PublisherAddress is where Functions publish events.
	PublisherAddress string
	// TraceCollector is where processes and Functions send traces; empty: nowhere.
	TraceCollector *string
	// ReadyRequeue is how often a Function is looked at again without any change.
	ReadyRequeue time.Duration
	// LivenessTimeout is how long all workers of the Function controller may hang before its process is restarted.
	LivenessTimeout time.Duration
	// DefaultProfile is the resource profile of Functions that name none.
	DefaultProfile string
	// Profiles are what resource profiles mean.
	Profiles map[string]corev1.ResourceRequirements
	// PollingInterval is how often KEDA asks for a backlog.
	PollingInterval time.Duration
	// CooldownPeriod is how long a Function without work stays awake.
	CooldownPeriod *time.Duration
	// InitialCooldownPeriod is the same for a new one.
	InitialCooldownPeriod *time.Duration
	// ScaleDownStabilization is how long a backlog must stay small before replicas are taken away.
	ScaleDownStabilization *time.Duration
	// GitCheckInterval is how often repositories are asked.
	GitCheckInterval time.Duration
	// HTTPWait is how long a request may wait for a pod.
	HTTPWait time.Duration
	// MaxAttempts is after how many attempts an event becomes a dead letter.
	MaxAttempts int
	// Backoff and MaxBackoff are the first and the longest wait between attempts.
	Backoff, MaxBackoff time.Duration
	// MaxRollouts is how many Functions that are awake follow at a time.
	MaxRollouts int
	// Unused are fields that are Kyma's and mean nothing here.
	Unused []string
}

// Collector is where processes and Functions send traces, where the flag says that.
func (s *Settings) Collector(flag string) string {
	if s.TraceCollector != nil {
		return *s.TraceCollector
	}
	return flag
}

// Formats of log lines.
const (
	FormatJSON    = "json"
	FormatConsole = "console"
)

// Log is what a log-config.yaml says. Empty leaves what the flags say.
type Log struct {
	Level      string
	Format     string            // FormatJSON or FormatConsole
	Components map[string]string // levels, by component
	// DebugLinesPerSecond is for each namespace; nil: the default.
	DebugLinesPerSecond *int
}

// Levels are those of a log, the most talkative first. All that is graver than an error is logged as one.
var levels = []string{"debug", "info", "warn", "error"}

// Processes are the components that others are parts of.
var processes = []string{"controller", "eventbridge", "gateway", "operator", "scaler"}

// ProfileNames are those that a Function may name.
var ProfileNames = []string{"XS", "S", "M", "L", "XL"}
