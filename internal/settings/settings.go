package settings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Settings are the content of a function-config.yaml. Nil and zero values leave a process's flags in force.
type Settings struct {
	// PublisherAddress is the URL at which Functions publish events.
	PublisherAddress string
	// TraceCollector is the URL to which processes and Functions send traces; empty disables traces.
	TraceCollector *string
	// ReadyRequeue is the interval at which an unchanged Function is reconciled.
	ReadyRequeue time.Duration
	// LivenessTimeout bounds how long all workers of the Function controller may hang before its process is restarted.
	LivenessTimeout time.Duration
	// DefaultProfile is the resource profile of Functions that name none.
	DefaultProfile string
	// Profiles define the resource profiles.
	Profiles map[string]corev1.ResourceRequirements
	// PollingInterval is the interval at which KEDA polls the scaler.
	PollingInterval time.Duration
	// CooldownPeriod is the time after which an idle Function is scaled to zero.
	CooldownPeriod *time.Duration
	// InitialCooldownPeriod is the cooldown period of a new Function.
	InitialCooldownPeriod *time.Duration
	// ScaleDownStabilization is the time for which a backlog must stay small before replicas are removed.
	ScaleDownStabilization *time.Duration
	// GitCheckInterval is the interval at which Git repositories are polled.
	GitCheckInterval time.Duration
	// HTTPWait bounds how long a request may wait for a pod.
	HTTPWait time.Duration
	// MaxAttempts is the number of attempts after which an event becomes a dead letter.
	MaxAttempts int
	// Backoff and MaxBackoff are the first and the longest delay between attempts.
	Backoff, MaxBackoff time.Duration
	// MaxRollouts limits the concurrent rollouts of awake Functions after a change.
	MaxRollouts int
	// Unused are fields of Kyma's file that have no effect here.
	Unused []string
}

// Collector returns the URL to which processes and Functions send traces, given the flag's value.
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

// Log is the content of a log-config.yaml. Empty values leave the flags in force.
type Log struct {
	Level      string
	Format     string            // FormatJSON or FormatConsole
	Components map[string]string // levels, by component
	// DebugLinesPerSecond is the limit for each namespace; nil: the default.
	DebugLinesPerSecond *int
}

// Levels are the levels of a log, the most verbose first. Anything more severe than an error is logged as an error.
var levels = []string{"debug", "info", "warn", "error"}

// Processes are the first parts of component names.
var processes = []string{"controller", "eventbridge", "gateway", "operator", "scaler"}

// ProfileNames are the profiles that a Function may name.
var ProfileNames = []string{"XS", "S", "M", "L", "XL"}

// Keys of the ConfigMaps, which equal those of Kyma's serverless-config and serverless-log-config.
const (
	FunctionKey = "function-config.yaml"
	LogKey      = "log-config.yaml"
)

// MaxBytes is the maximum length of a file.
const MaxBytes = 256 << 10

// File is function-config.yaml. Values are texts as in Kyma's file; a missing or empty value leaves a process's flag in
// force, except that an empty text disables the trace collector.
type File struct {
	FunctionPublisherProxyAddress  string        `json:"functionPublisherProxyAddress,omitempty"`
	FunctionTraceCollectorEndpoint *string       `json:"functionTraceCollectorEndpoint,omitempty"`
	FunctionReadyRequeueDuration   string        `json:"functionReadyRequeueDuration,omitempty"`
	HealthzLivenessTimeout         string        `json:"healthzLivenessTimeout,omitempty"`
	ResourcesConfiguration         *Resources    `json:"resourcesConfiguration,omitempty"`
	Scaling                        *ScalingFile  `json:"scaling,omitempty"`
	GitCheckInterval               string        `json:"gitCheckInterval,omitempty"`
	HTTPWait                       string        `json:"httpWait,omitempty"`
	Delivery                       *DeliveryFile `json:"delivery,omitempty"`
	Rollout                        *RolloutFile  `json:"rollout,omitempty"`
	Kyma                           `json:",inline"`
}

// Kyma holds fields of Kyma's file that have no effect here: they are flags of the processes, or have no counterpart.
type Kyma struct {
	MetricsPort                     any            `json:"metricsPort,omitempty"`
	HealthzPort                     any            `json:"healthzPort,omitempty"`
	LeaderElectionEnabled           *bool          `json:"leaderElectionEnabled,omitempty"`
	LeaderElectionID                string         `json:"leaderElectionID,omitempty"`
	SecretMutatingWebhookPort       any            `json:"secretMutatingWebhookPort,omitempty"`
	InternalEndpointPort            any            `json:"internalEndpointPort,omitempty"`
	Images                          map[string]any `json:"images,omitempty"`
	PackageRegistryConfigSecretName string         `json:"packageRegistryConfigSecretName,omitempty"`
}

// Resources wraps the resources of Functions as Kyma does.
type Resources struct {
	Function *FunctionResources `json:"function,omitempty"`
}

// FunctionResources is the second level of Kyma's structure.
type FunctionResources struct {
	Resources *Presets `json:"resources,omitempty"`
}

// Presets are the resource profiles of Functions.
type Presets struct {
	MinRequestCPU    string            `json:"minRequestCpu,omitempty"`
	MinRequestMemory string            `json:"minRequestMemory,omitempty"`
	DefaultPreset    string            `json:"defaultPreset,omitempty"`
	Presets          map[string]Preset `json:"presets,omitempty"`
}

// Preset is one resource profile.
type Preset struct {
	RequestCPU    string `json:"requestCpu"`
	RequestMemory string `json:"requestMemory"`
	LimitCPU      string `json:"limitCpu"`
	LimitMemory   string `json:"limitMemory"`
}

// ScalingFile are the defaults for Functions with a scaleConfig.
type ScalingFile struct {
	PollingInterval        string `json:"pollingInterval,omitempty"`
	CooldownPeriod         string `json:"cooldownPeriod,omitempty"`
	InitialCooldownPeriod  string `json:"initialCooldownPeriod,omitempty"`
	ScaleDownStabilization string `json:"scaleDownStabilization,omitempty"`
}

// DeliveryFile holds the defaults for redelivery, for Subscriptions that set none.
type DeliveryFile struct {
	MaxAttempts int    `json:"maxAttempts,omitempty"`
	Backoff     string `json:"backoff,omitempty"`
	MaxBackoff  string `json:"maxBackoff,omitempty"`
}

// RolloutFile limits the rollouts of Functions after a change of settings that replaces their pods.
type RolloutFile struct {
	MaxFunctions int `json:"maxFunctions,omitempty"`
}

// LogFile is log-config.yaml.
type LogFile struct {
	LogLevel  string `json:"logLevel,omitempty"`
	LogFormat string `json:"logFormat,omitempty"`
	// Components have their own levels: eventbridge, or eventbridge/delivery.
	Components map[string]string `json:"components,omitempty"`
	// DebugLinesPerSecond limits the debug lines of the Functions and Subscriptions of one namespace; 0: none.
	DebugLinesPerSecond *int `json:"debugLinesPerSecond,omitempty"`
}

// maxComponents and the pattern bound the number of comparisons per log line.
const maxComponents = 100

var componentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}(/[A-Za-z0-9.-]{1,63}){0,3}$`)

// ParseLog parses a log-config.yaml. The error lists all problems.
func ParseLog(text string) (Log, error) {
	file := LogFile{}
	if err := decode(text, &file); err != nil {
		return Log{}, fmt.Errorf("%s: %w", LogKey, err)
	}
	p := &parser{}
	read := Log{
		Level: p.level("logLevel", file.LogLevel), Format: p.format(file.LogFormat), DebugLinesPerSecond: file.DebugLinesPerSecond,
	}
	if len(file.Components) > maxComponents {
		p.refuse("components", "%d are more than %d: name groups, such as eventbridge", len(file.Components), maxComponents)
	} else {
		read.Components = p.components(file.Components)
	}
	if most := file.DebugLinesPerSecond; most != nil && (*most < 0 || *most > 1000) {
		p.refuse("debugLinesPerSecond", "%d must be from 0 to 1000", *most)
	}
	if err := p.err(LogKey); err != nil {
		return Log{}, err
	}
	return read, nil
}

func (p *parser) components(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	read := make(map[string]string, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		field := "components." + shortened(name)
		process, _, _ := strings.Cut(name, "/")
		if !componentName.MatchString(name) || !slices.Contains(processes, process) {
			p.refuse(field, "must begin with one of %s, as in eventbridge/delivery", strings.Join(processes, ", "))
			continue
		}
		if of[name] == "" {
			p.refuse(field, "needs a level: %s", strings.Join(levels, ", "))
			continue
		}
		read[name] = p.level(field, of[name])
	}
	return read
}

// level also accepts Kyma's names for levels more severe than error.
func (p *parser) level(field, text string) string {
	switch text {
	case "", "debug", "info", "warn", "error":
		return text
	case "fatal", "panic", "dpanic":
		return "error"
	default:
		p.refuse(field, "%q must be one of %s or fatal", shortened(text), strings.Join(levels, ", "))
		return ""
	}
}

func (p *parser) format(text string) string {
	switch text {
	case "", FormatJSON, FormatConsole:
		return text
	case "text":
		return FormatConsole
	default:
		p.refuse("logFormat", "%q must be json or console", shortened(text))
		return ""
	}
}

// Changes describes the differences in the words of Kyma's Events.
func Changes(before, now *Settings) []string { return changes(before.fields(), now.fields()) }

// LogChanges is the same for a log.
func LogChanges(before, now *Log) []string { return changes(before.fields(), now.fields()) }

// field is one setting as a text; empty: the flag is in force.
type field struct{ name, text string }

func changes(before, now []field) []string {
	var found []string
	for i := range now {
		if before[i].text != now[i].text {
			found = append(found, fmt.Sprintf("%s set from '%s' to '%s'", now[i].name, before[i].text, now[i].text))
		}
	}
	return found
}

func (s *Settings) fields() []field {
	all := []field{
		{"Publisher address", s.PublisherAddress},
		{"Trace collector", optional(s.TraceCollector, func(text string) string { return `"` + text + `"` })},
		{"Function requeue duration", duration(s.ReadyRequeue)},
		{"Duration of health check", duration(s.LivenessTimeout)},
		{"Default profile", s.DefaultProfile},
		{"Polling interval", duration(s.PollingInterval)},
		{"Cooldown period", optional(s.CooldownPeriod, time.Duration.String)},
		{"Initial cooldown period", optional(s.InitialCooldownPeriod, time.Duration.String)},
		{"Scale-down stabilization", optional(s.ScaleDownStabilization, time.Duration.String)},
		{"Git check interval", duration(s.GitCheckInterval)},
		{"HTTP wait", duration(s.HTTPWait)},
		{"Attempts of deliveries", number(s.MaxAttempts)},
		{"Wait between deliveries", duration(s.Backoff)},
		{"Longest wait between deliveries", duration(s.MaxBackoff)},
		{"Functions that follow at a time", number(s.MaxRollouts)},
	}
	for _, name := range ProfileNames {
		text := ""
		if profile, ok := s.Profiles[name]; ok {
			text = shown(&profile)
		}
		all = append(all, field{"Profile " + name, text})
	}
	return all
}

func shown(profile *corev1.ResourceRequirements) string {
	least, most := profile.Requests, profile.Limits
	return fmt.Sprintf("cpu %s to %s, memory %s to %s", least.Cpu(), most.Cpu(), least.Memory(), most.Memory())
}

func (l *Log) fields() []field {
	components := make([]string, 0, len(l.Components))
	for _, name := range slices.Sorted(maps.Keys(l.Components)) {
		components = append(components, name+"="+l.Components[name])
	}
	return []field{
		{"Log level", l.Level},
		{"Log format", l.Format},
		{"Log levels of components", strings.Join(components, " ")},
		{"Debug lines per second", optional(l.DebugLinesPerSecond, strconv.Itoa)},
	}
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func optional[T any](value *T, text func(T) string) string {
	if value == nil {
		return ""
	}
	return text(*value)
}
