package resources

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/internal/settings"
)

// Settings are the effective values of a Serverless.
type Settings struct {
	EventingEndpoint        string
	TracingEndpoint         string
	FunctionRequeueDuration string // empty: the Function controller's own
	HealthzLivenessTimeout  string // empty: the Function controller's own
	DefaultPreset           string
	LogLevel                string
	LogFormat               string
}

// Found is what the cluster provides for omitted values.
type Found struct {
	// TracingEndpoint is that of a collector in the cluster.
	TracingEndpoint string
	// Preset is the one chosen before: adding or removing a node must not replace the pods of all Functions.
	Preset string
	// Small is true for a cluster of up to two nodes.
	Small bool
}

const (
	defaultLogLevel  = "info"
	defaultLogFormat = "json"
	smallPreset      = "XS"
	largePreset      = "L"
	maxURL           = 2048
)

// Valid values of a Serverless.
var (
	presets    = []string{"XS", "S", "M", "L", "XL"}
	logLevels  = []string{"debug", "info", "warn", "error", "fatal"}
	logFormats = []string{"json", "console"}
)

// InvalidError describes invalid fields of a Serverless, and their remedies.
type InvalidError struct{ Problems []string }

// Error lists all of them.
func (e *InvalidError) Error() string { return strings.Join(e.Problems, ". ") }

// Resolve returns the effective settings. Its error is an *InvalidError.
func Resolve(spec *operatorv1alpha1.ServerlessSpec, installation *Installation, found Found) (Settings, error) {
	defaults := &installation.Defaults
	settings := Settings{
		EventingEndpoint:        defaults.PublisherAddress,
		TracingEndpoint:         cmp.Or(defaults.TraceCollectorEndpoint, found.TracingEndpoint),
		FunctionRequeueDuration: spec.FunctionRequeueDuration,
		HealthzLivenessTimeout:  spec.HealthzLivenessTimeout,
		DefaultPreset:           cmp.Or(spec.DefaultRuntimePodPreset, defaults.Profile, found.Preset, presetFor(found)),
		LogLevel:                cmp.Or(spec.LogLevel, defaults.LogLevel, defaultLogLevel),
		LogFormat:               formatOf(cmp.Or(spec.LogFormat, defaults.LogFormat, defaultLogFormat)),
	}
	if spec.Eventing != nil {
		settings.EventingEndpoint = spec.Eventing.Endpoint
	}
	if spec.Tracing != nil {
		settings.TracingEndpoint = spec.Tracing.Endpoint
	}
	if err := settings.validate(defaults.PublisherAddress); err != nil {
		return settings, err
	}
	if problems := settings.check(installation); problems != nil {
		return settings, &InvalidError{Problems: problems}
	}
	return settings, nil
}

// formatOf accepts Kyma's other name of console, too.
func formatOf(format string) string {
	if format == "text" {
		return "console"
	}
	return format
}

func presetFor(found Found) string {
	if found.Small {
		return smallPreset
	}
	return largePreset
}

func (s *Settings) validate(publisher string) error {
	var problems []string
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if problem := endpointProblem(s.EventingEndpoint); problem != "" {
		refuse("spec.eventing.endpoint %s: use a URL like %s, or leave spec.eventing out", problem, publisher)
	}
	if problem := endpointProblem(s.TracingEndpoint); problem != "" && s.TracingEndpoint != "" {
		refuse("spec.tracing.endpoint %s: use a URL like http://collector.monitoring.svc.cluster.local:4318/v1/traces, or an empty one for no traces",
			problem)
	}
	for _, duration := range []struct {
		field, value, example string
		low, high             time.Duration
	}{
		{"spec.functionRequeueDuration", s.FunctionRequeueDuration, "5m", 10 * time.Second, 24 * time.Hour},
		{"spec.healthzLivenessTimeout", s.HealthzLivenessTimeout, "10s", time.Second, 10 * time.Minute},
	} {
		if problem := durationProblem(duration.value, duration.low, duration.high); problem != "" {
			refuse("%s %s: use a duration like %s, or leave it out", duration.field, problem, duration.example)
		}
	}
	for _, choice := range []struct {
		field, value string
		values       []string
	}{
		{"spec.defaultRuntimePodPreset", s.DefaultPreset, presets},
		{"spec.logLevel", s.LogLevel, logLevels},
		{"spec.logFormat", s.LogFormat, logFormats},
	} {
		if !slices.Contains(choice.values, choice.value) {
			refuse("%s %q is not known: use one of %s", choice.field, shown(choice.value), strings.Join(choice.values, ", "))
		}
	}
	if problems == nil {
		return nil
	}
	return &InvalidError{Problems: problems}
}

// endpointProblem returns why a text is not the URL of a server, empty if it is.
func endpointProblem(text string) string {
	if len(text) > maxURL {
		return fmt.Sprintf("has %d bytes, at most %d", len(text), maxURL)
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "":
		return fmt.Sprintf("%q is not an http or https URL", shown(text))
	case parsed.User != nil:
		return "contains a user name or password, which everyone could read"
	default:
		return ""
	}
}

// durationProblem returns why a text is not a duration within the bounds, empty if it is.
func durationProblem(text string, low, high time.Duration) string {
	if text == "" {
		return ""
	}
	duration, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Sprintf("%q is not a duration", shown(text))
	case duration < low || duration > high:
		return fmt.Sprintf("%q is not between %s and %s", shown(text), low, high)
	default:
		return ""
	}
}

// shown truncates a text for a message.
func shown(text string) string {
	const enough = 64
	if runes := []rune(text); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return text
}

// The ConfigMaps have Kyma's names and keys, so that what reads or shows them there finds the same.

func configs(
	owner *operatorv1alpha1.Serverless, installation *Installation, values *Settings,
) ([]*corev1ac.ConfigMapApplyConfiguration, error) {
	functions, err := functionConfig(installation.FunctionConfig, values)
	if err != nil {
		return nil, err
	}
	logs, err := logConfig(installation.LogConfig, values)
	if err != nil {
		return nil, err
	}
	return []*corev1ac.ConfigMapApplyConfiguration{
		configMap(owner, ConfigName, ConfigKey, functions), configMap(owner, LogConfigName, LogConfigKey, logs),
	}, nil
}

func configMap(owner *operatorv1alpha1.Serverless, name, key, text string) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(name, owner.Namespace).WithLabels(objectLabels(owner)).WithData(map[string]string{key: text})
}

// functionConfig returns the installation's file with the values of a Serverless.
func functionConfig(installed map[string]any, values *Settings) (string, error) {
	file := runtime.DeepCopyJSON(installed)
	if file == nil {
		file = map[string]any{}
	}
	for key, value := range map[string]string{
		"functionPublisherProxyAddress": values.EventingEndpoint,
		"functionReadyRequeueDuration":  values.FunctionRequeueDuration,
		"healthzLivenessTimeout":        values.HealthzLivenessTimeout,
	} {
		if value != "" { // omitted values are the installation's, or else the controller's own
			file[key] = value
		}
	}
	file["functionTraceCollectorEndpoint"] = values.TracingEndpoint // empty means none
	err := unstructured.SetNestedField(file, values.DefaultPreset, "resourcesConfiguration", "function", "resources", "defaultPreset")
	if err != nil {
		return "", fmt.Errorf("the installation's function-config.yaml: %w", err)
	}
	return encoded(file)
}

func logConfig(installed map[string]any, values *Settings) (string, error) {
	file := runtime.DeepCopyJSON(installed)
	if file == nil {
		file = map[string]any{}
	}
	file["logLevel"], file["logFormat"] = values.LogLevel, values.LogFormat
	return encoded(file)
}

func encoded(file map[string]any) (string, error) {
	text, err := yaml.Marshal(file)
	if err != nil {
		return "", fmt.Errorf("encode the settings: %w", err)
	}
	return string(text), nil
}

// settingsArgs name the ConfigMaps of the settings, which the Function controller watches.
func settingsArgs(owner *operatorv1alpha1.Serverless) []string {
	return []string{
		"--config-map=" + owner.Namespace + "/" + ConfigName,
		"--log-config-map=" + owner.Namespace + "/" + LogConfigName,
	}
}

// check validates the settings with the Function controller's own parser.
func (s *Settings) check(installation *Installation) []string {
	var problems []string
	for _, file := range []struct {
		made func() (string, error)
		read func(string) error
	}{
		{
			func() (string, error) { return functionConfig(installation.FunctionConfig, s) },
			func(text string) error { _, err := settings.Parse(text); return err },
		},
		{
			func() (string, error) { return logConfig(installation.LogConfig, s) },
			func(text string) error { _, err := settings.ParseLog(text); return err },
		},
	} {
		text, err := file.made()
		if err == nil {
			err = file.read(text)
		}
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}
