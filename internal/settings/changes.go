package settings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Changes says what is different now, in the words of Kyma's Events.
func Changes(before, now *Settings) []string { return changes(before.fields(), now.fields()) }

// LogChanges is the same for a log.
func LogChanges(before, now *Log) []string { return changes(before.fields(), now.fields()) }

// field is one setting as a text; empty: what the flags say.
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
