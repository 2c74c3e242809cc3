package settings

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Parse parses a function-config.yaml. The error lists all problems.
func Parse(text string) (Settings, error) {
	file := File{}
	if err := decode(text, &file); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", FunctionKey, err)
	}
	p := &parser{}
	read := p.settings(&file)
	if err := p.err(FunctionKey); err != nil {
		return Settings{}, err
	}
	return read, nil
}

// parser collects problems.
type parser struct{ problems []error }

func (p *parser) refuse(field, format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf(field+": "+format, args...))
}

func (p *parser) err(file string) error {
	const most = 10 // of the problems in one message
	if len(p.problems) == 0 {
		return nil
	}
	if more := len(p.problems) - most; more > 0 {
		p.problems = append(p.problems[:most], fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("%s: %w", file, joined(p.problems))
}

// joined is errors.Join in one line, for an Event.
func joined(problems []error) error {
	texts := make([]string, len(problems))
	for i, problem := range problems {
		texts[i] = problem.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

func (p *parser) settings(file *File) Settings {
	read := Settings{
		PublisherAddress: p.url("functionPublisherProxyAddress", file.FunctionPublisherProxyAddress),
		ReadyRequeue:     p.duration("functionReadyRequeueDuration", file.FunctionReadyRequeueDuration, 10*time.Second, 24*time.Hour),
		LivenessTimeout:  p.duration("healthzLivenessTimeout", file.HealthzLivenessTimeout, time.Second, time.Hour),
		GitCheckInterval: p.duration("gitCheckInterval", file.GitCheckInterval, 5*time.Second, 24*time.Hour),
		HTTPWait:         p.duration("httpWait", file.HTTPWait, time.Second, time.Hour),
		Unused:           unused(file),
	}
	if collector := file.FunctionTraceCollectorEndpoint; collector != nil {
		read.TraceCollector = new(p.url("functionTraceCollectorEndpoint", *collector))
	}
	if file.ResourcesConfiguration != nil && file.ResourcesConfiguration.Function != nil && file.ResourcesConfiguration.Function.Resources != nil {
		p.presets(file.ResourcesConfiguration.Function.Resources, &read)
	}
	if scaling := file.Scaling; scaling != nil {
		read.PollingInterval = p.duration("scaling.pollingInterval", scaling.PollingInterval, time.Second, time.Hour)
		read.CooldownPeriod = p.optional("scaling.cooldownPeriod", scaling.CooldownPeriod, 24*time.Hour)
		read.InitialCooldownPeriod = p.optional("scaling.initialCooldownPeriod", scaling.InitialCooldownPeriod, 24*time.Hour)
		read.ScaleDownStabilization = p.optional("scaling.scaleDownStabilization", scaling.ScaleDownStabilization, time.Hour)
	}
	if delivery := file.Delivery; delivery != nil {
		p.delivery(delivery, &read)
	}
	if rollout := file.Rollout; rollout != nil && rollout.MaxFunctions != 0 {
		if read.MaxRollouts = rollout.MaxFunctions; read.MaxRollouts < 1 || read.MaxRollouts > 1000 {
			p.refuse("rollout.maxFunctions", "%d must be from 1 to 1000", read.MaxRollouts)
		}
	}
	return read
}

func (p *parser) delivery(file *DeliveryFile, read *Settings) {
	const mostAttempts, shortest, longest = 10_000, time.Millisecond, 24 * time.Hour
	if read.MaxAttempts = file.MaxAttempts; read.MaxAttempts < 0 || read.MaxAttempts > mostAttempts {
		p.refuse("delivery.maxAttempts", "%d must be from 1 to %d", read.MaxAttempts, mostAttempts)
	}
	read.Backoff = p.duration("delivery.backoff", file.Backoff, shortest, longest)
	read.MaxBackoff = p.duration("delivery.maxBackoff", file.MaxBackoff, shortest, longest)
	if read.MaxBackoff > 0 && read.Backoff > read.MaxBackoff {
		p.refuse("delivery.backoff", "%s must not be more than delivery.maxBackoff, %s", read.Backoff, read.MaxBackoff)
	}
}

// duration returns 0 for an empty text.
func (p *parser) duration(field, text string, low, high time.Duration) time.Duration {
	if text == "" {
		return 0
	}
	found, err := time.ParseDuration(text)
	if err != nil || found < low || found > high {
		p.refuse(field, "%q must be a duration from %s to %s, such as 5m", shortened(text), low, high)
	}
	return found
}

// optional returns nil for an empty text, since 0 has a meaning.
func (p *parser) optional(field, text string, high time.Duration) *time.Duration {
	if text == "" {
		return nil
	}
	return new(p.duration(field, text, 0, high))
}

// url returns an empty text for an empty text. It rejects a password, since everyone who may read a Function's pods can
// read the URL.
func (p *parser) url(field, text string) string {
	if text == "" {
		return ""
	}
	const longest = 2048
	u, err := url.Parse(text)
	switch {
	case len(text) > longest, err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", strings.ContainsFunc(text, isControlOrSpace):
		p.refuse(field, "%q must be a URL such as http://name.namespace.svc.cluster.local/path", shortened(redacted(text)))
	case u.User != nil:
		p.refuse(field, "must have no user and password: all who may see pods can read it")
	}
	return text
}

func isControlOrSpace(r rune) bool { return r <= ' ' || r == 0x7f }

// redacted removes everything before an @, which may be a password.
func redacted(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "..." + text[at:]
	}
	return text
}

const presetsField = "resourcesConfiguration.function.resources."

func (p *parser) presets(file *Presets, read *Settings) {
	read.DefaultProfile = file.DefaultPreset
	if read.DefaultProfile != "" && !slices.Contains(ProfileNames, read.DefaultProfile) {
		p.refuse(presetsField+"defaultPreset", "%q must be one of %s", shortened(file.DefaultPreset), strings.Join(ProfileNames, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(file.Presets)) {
		field := presetsField + "presets." + shortened(name)
		if !slices.Contains(ProfileNames, name) {
			p.refuse(field, "a Function can name only %s: remove it", strings.Join(ProfileNames, ", "))
			continue
		}
		if read.Profiles == nil {
			read.Profiles = map[string]corev1.ResourceRequirements{}
		}
		read.Profiles[name] = p.preset(field, file.Presets[name])
	}
}

func (p *parser) preset(field string, preset Preset) corev1.ResourceRequirements {
	var least, most corev1.ResourceList
	for _, q := range []struct {
		name, text, low string
		list            *corev1.ResourceList
		of              corev1.ResourceName
	}{
		{"requestCpu", preset.RequestCPU, "10m", &least, corev1.ResourceCPU},
		{"requestMemory", preset.RequestMemory, "16Mi", &least, corev1.ResourceMemory},
		{"limitCpu", preset.LimitCPU, "10m", &most, corev1.ResourceCPU},
		{"limitMemory", preset.LimitMemory, "16Mi", &most, corev1.ResourceMemory},
	} {
		quantity, err := resource.ParseQuantity(q.text)
		if err != nil || quantity.Cmp(resource.MustParse(q.low)) < 0 {
			p.refuse(field+"."+q.name, "%q must be a quantity of at least %s, and each preset has requestCpu, requestMemory, limitCpu and limitMemory",
				shortened(q.text), q.low)
			continue
		}
		if *q.list == nil {
			*q.list = corev1.ResourceList{}
		}
		(*q.list)[q.of] = quantity
	}
	for _, of := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		low, known := least[of]
		if high, too := most[of]; known && too && low.Cmp(high) > 0 {
			p.refuse(field, "the request of %s, %s, must not be more than its limit, %s", of, low.String(), high.String())
		}
	}
	return corev1.ResourceRequirements{Requests: least, Limits: most}
}

func unused(file *File) []string {
	var found []string
	note := func(name string, is bool) {
		if is {
			found = append(found, name)
		}
	}
	k := &file.Kyma
	note("healthzPort", k.HealthzPort != nil)
	note("images", len(k.Images) > 0)
	note("internalEndpointPort", k.InternalEndpointPort != nil)
	note("leaderElectionEnabled", k.LeaderElectionEnabled != nil)
	note("leaderElectionID", k.LeaderElectionID != "")
	note("metricsPort", k.MetricsPort != nil)
	note("packageRegistryConfigSecretName", k.PackageRegistryConfigSecretName != "")
	if c := file.ResourcesConfiguration; c != nil && c.Function != nil && c.Function.Resources != nil {
		note(presetsField+"minRequestCpu", c.Function.Resources.MinRequestCPU != "")
		note(presetsField+"minRequestMemory", c.Function.Resources.MinRequestMemory != "")
	}
	note("secretMutatingWebhookPort", k.SecretMutatingWebhookPort != nil)
	return found
}

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// decode decodes a file strictly. The YAML parser bounds the expansion of aliases.
func decode(text string, into any) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("it is longer than %d KiB: keep only settings in it", MaxBytes>>10)
	}
	err := yaml.UnmarshalStrict([]byte(text), into)
	if err == nil {
		return nil
	}
	problem := strings.NewReplacer("error unmarshaling JSON: ", "", "while decoding JSON: ", "", "error converting YAML to JSON: ", "").Replace(err.Error())
	if found := unknownField.FindStringSubmatch(problem); found != nil {
		return unknown(found[1], reflect.TypeOf(into).Elem())
	}
	const longest = 300 // the YAML parser may quote much of the file
	if len(problem) > longest {
		problem = strings.ToValidUTF8(problem[:longest], "") + "..."
	}
	return errors.New(problem)
}

func unknown(path string, file reflect.Type) error {
	name := path[strings.LastIndexByte(path, '.')+1:]
	known := map[string]bool{}
	fieldsOf(file, known)
	if meant := closest(name, known); meant != "" {
		return fmt.Errorf("unknown field %q: did you mean %s?", shortened(path), meant)
	}
	return fmt.Errorf("unknown field %q: remove it", shortened(path))
}

// fieldsOf collects the names of all fields, recursively.
func fieldsOf(t reflect.Type, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			into[name] = true
		}
		fieldsOf(field.Type, into)
	}
}

// closest returns the known name that a typo probably stands for, or an empty string.
func closest(name string, known map[string]bool) string {
	best, distance := "", max(len(name)/3, 1)+1
	if len(name) > 100 {
		return ""
	}
	for candidate := range known {
		d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(candidate))
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	return best
}

func shortened(text string) string {
	const longest = 100
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
