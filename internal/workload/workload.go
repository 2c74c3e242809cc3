package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// EnvHandlerSource is the variable that carries the encoded source.
const EnvHandlerSource = "FUNC_HANDLER_SOURCE"

// EnvRuntime is the variable that names the runtime.
const EnvRuntime = "FUNC_RUNTIME"

// The variables that say where a Function publishes, and in which file is the token that it shows there.
const (
	EnvPublisher      = "PUBLISHER_PROXY_ADDRESS"
	EnvPublisherToken = "PUBLISHER_TOKEN_FILE"
)

// Addresses are the installation's, as Functions get them.
type Addresses struct {
	// Publisher is where they publish events.
	Publisher string
	// PublisherToken is the file of the token that they show there; empty when they have none.
	PublisherToken string
	// TraceCollector is where they send traces; it may be empty.
	TraceCollector string
}

// Environment lists the variables of a Function in the order in which they may
// refer to each other. The user's come after the defaults, so they win; what
// must not be changed comes last. The runtime and the encoded source, which is
// empty when the Function has it elsewhere, need not be those of the spec.
func Environment(fn *v1alpha2.Function, runtime v1alpha2.Runtime, source string, addresses Addresses) []corev1.EnvVar {
	env := common(fn, runtime, addresses)
	if source != "" {
		env = append(env, corev1.EnvVar{Name: EnvHandlerSource, Value: source})
	}
	return lastOfEach(env)
}

func common(fn *v1alpha2.Function, runtime v1alpha2.Runtime, addresses Addresses) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "FUNC_NAME", Value: fn.Name},
		{Name: EnvRuntime, Value: string(runtime)},
		{Name: "SERVICE_NAMESPACE", Value: fn.Namespace},
		{Name: "TRACE_COLLECTOR_ENDPOINT", Value: addresses.TraceCollector},
		{Name: EnvPublisher, Value: addresses.Publisher},
	}
	// What is of no language has no variables of one; it never gets as far as a pod.
	if known, err := languages.Of(runtime); err == nil {
		env = append(env, variables(known.Environment)...)
	}
	env = append(env, bindingRoot(fn)...)
	env = append(env, fn.Spec.Env...)
	if addresses.PublisherToken != "" {
		env = append(env, corev1.EnvVar{Name: EnvPublisherToken, Value: addresses.PublisherToken})
	}
	return env
}

func variables(of []language.Variable) []corev1.EnvVar {
	env := make([]corev1.EnvVar, 0, len(of))
	for _, variable := range of {
		env = append(env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	return env
}

// lastOfEach keeps the last variable of each name: Kubernetes lets it win, and
// server-side apply refuses a name that comes twice.
func lastOfEach(env []corev1.EnvVar) []corev1.EnvVar {
	last := make(map[string]int, len(env))
	for i, variable := range env {
		last[variable.Name] = i
	}
	kept := make([]corev1.EnvVar, 0, len(last))
	for i, variable := range env {
		if last[variable.Name] == i {
			kept = append(kept, variable)
		}
	}
	return kept
}

// EnvBindingRoot names the folder with the bindings of a Function: one folder for each, with a file for each key of its
// Secret. Libraries that read bindings look there, and the runtimes of servicebinding.io mount there.
const EnvBindingRoot = "SERVICE_BINDING_ROOT"

// BindingRoot is the default directory of bindings.
const BindingRoot = "/bindings"

// BindingVolumePrefix begins the names of the volumes that runtimes of servicebinding.io add to pods.
const BindingVolumePrefix = "servicebinding-"

// bindingRoot names the folder of bindings where a mounted Secret is one. Other Functions do without the variable, so
// that a runtime of servicebinding.io finds them as it expects.
func bindingRoot(fn *v1alpha2.Function) []corev1.EnvVar {
	if !MountsBelow(fn, BindingRoot) {
		return nil
	}
	return []corev1.EnvVar{{Name: EnvBindingRoot, Value: BindingRoot}}
}

// MountsBelow reports whether the Function mounts a Secret in a folder below root.
func MountsBelow(fn *v1alpha2.Function, root string) bool {
	root = strings.TrimSuffix(path.Clean(root), "/") + "/"
	return slices.ContainsFunc(fn.Spec.SecretMounts, func(mount v1alpha2.SecretMount) bool {
		return strings.HasPrefix(path.Clean(mount.MountPath), root)
	})
}

// EnvHandlerDependencies is the variable that carries dependencies to an image of
// Kyma's contract.
const EnvHandlerDependencies = "FUNC_HANDLER_DEPENDENCIES"

// Inline is code that a pod of Kyma's contract writes into files itself.
type Inline struct{ Source, Dependencies string }

// FitsEnvironment reports whether the kernel takes each part as a variable.
func (i Inline) FitsEnvironment() bool {
	return len(i.Source) <= MaxSource && len(i.Dependencies) <= MaxSource
}

// KymaEnvironment lists the variables for an image of Kyma's contract. Inline is nil when the code is in files already.
func KymaEnvironment(fn *v1alpha2.Function, runtime v1alpha2.Runtime, inline *Inline, addresses Addresses) []corev1.EnvVar {
	env := common(fn, runtime, addresses)
	if inline != nil {
		env = append(env,
			corev1.EnvVar{Name: EnvHandlerSource, Value: literal(inline.Source)},
			corev1.EnvVar{Name: EnvHandlerDependencies, Value: literal(inline.Dependencies)},
		)
	}
	if known, err := languages.Of(runtime); err == nil && known.Kyma != nil {
		env = append(env, variables(known.Kyma.Environment(string(runtime)))...)
	}
	return lastOfEach(env)
}

// InlineOf reads back what KymaEnvironment has written, nil if that had no code.
func InlineOf(env []corev1.EnvVar) *Inline {
	var found *Inline
	for _, variable := range env {
		switch variable.Name {
		case EnvHandlerSource, EnvHandlerDependencies:
			if found == nil {
				found = &Inline{}
			}
			text := strings.ReplaceAll(variable.Value, "$$", "$")
			if variable.Name == EnvHandlerSource {
				found.Source = text
			} else {
				found.Dependencies = text
			}
		}
	}
	return found
}

// literal keeps Kubernetes from expanding $(NAME) and $$ in a value.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// What holds for every Function that does not say otherwise.
const (
	// DefaultHTTPConcurrency is the number of concurrent HTTP requests that one replica is meant for.
	DefaultHTTPConcurrency = 50
	// DefaultHTTPWaitSeconds bounds how long an HTTP request may wait for a pod.
	DefaultHTTPWaitSeconds = 60
)

// Tuning holds the scaling settings that a Function's annotations may change.
type Tuning struct {
	// PollingSeconds is KEDA's pollingInterval.
	PollingSeconds int64
	// CooldownSeconds is KEDA's cooldownPeriod.
	CooldownSeconds int64
	// LagThreshold is the backlog for each replica. The scaler, which knows the
	// Function's Subscriptions, decides when it is 0.
	LagThreshold int64
	// HTTPConcurrency is the number of concurrent HTTP requests that one replica is meant for.
	HTTPConcurrency int64
	// HTTPWaitSeconds bounds how long an HTTP request may wait for a pod.
	HTTPWaitSeconds int64
	// HTTPWake is true unless the Function opts out of being woken by HTTP.
	HTTPWake bool
}

// AnnotationError describes an invalid value of an annotation.
type AnnotationError struct {
	// Key of the annotation.
	Key string
	// Text says all of it, the key included.
	Text string
}

func (e AnnotationError) Error() string { return e.Text }

// TuningOf reads a Function's tuning annotations on top of the defaults, of
// which those of HTTP are the same everywhere. The error names every annotation
// that is wrong.
func TuningOf(annotations map[string]string, defaults Tuning) (Tuning, error) {
	tuning, wrong := readTuning(annotations, defaults)
	problems := make([]error, len(wrong))
	for i := range wrong {
		problems[i] = wrong[i]
	}
	return tuning, errors.Join(problems...)
}

// TuningErrors are the tuning annotations that are wrong.
func TuningErrors(annotations map[string]string) []AnnotationError {
	_, wrong := readTuning(annotations, Tuning{})
	return wrong
}

func readTuning(annotations map[string]string, defaults Tuning) (tuning Tuning, wrong []AnnotationError) {
	tuning = defaults
	tuning.HTTPConcurrency, tuning.HTTPWaitSeconds, tuning.HTTPWake = DefaultHTTPConcurrency, DefaultHTTPWaitSeconds, true
	for _, entry := range []struct {
		key      string
		low, top int64
		target   *int64
	}{
		{v1alpha2.AnnotationPollingInterval, 1, 86400, &tuning.PollingSeconds},
		{v1alpha2.AnnotationCooldownPeriod, 0, 604800, &tuning.CooldownSeconds},
		{v1alpha2.AnnotationLagThreshold, 1, 1000000, &tuning.LagThreshold},
		{v1alpha2.AnnotationHTTPConcurrency, 1, 1000000, &tuning.HTTPConcurrency},
		{v1alpha2.AnnotationHTTPWait, 1, 3600, &tuning.HTTPWaitSeconds},
	} {
		text, ok := annotations[entry.key]
		if !ok {
			continue
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil || value < entry.low || value > entry.top {
			wrong = append(wrong, AnnotationError{Key: entry.key, Text: fmt.Sprintf(
				"annotation %s: invalid value %q: must be a whole number from %d to %d", entry.key, text, entry.low, entry.top)})
			continue
		}
		*entry.target = value
	}
	const key = v1alpha2.AnnotationHTTPWake
	switch text, ok := annotations[key]; {
	case !ok, text == v1alpha2.HTTPWakeEnabled:
	case text == v1alpha2.HTTPWakeDisabled:
		tuning.HTTPWake = false
	default:
		wrong = append(wrong, AnnotationError{Key: key, Text: fmt.Sprintf("annotation %s: invalid value %q: must be %s or %s",
			key, text, v1alpha2.HTTPWakeEnabled, v1alpha2.HTTPWakeDisabled)})
	}
	return tuning, wrong
}

// MaxSource is the longest encoded source that fits a pod's environment. The
// kernel takes 128 KiB for one variable, its name included.
const MaxSource = 120 * 1024

// packers are compressors, each of which takes 800 KiB. The level is part of what makes a result the same each time.
var packers = sync.Pool{New: func() any {
	packer, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
	if err != nil {
		panic(err) // it is a level
	}
	return packer
}}

// EncodeSource is the form in which source travels to the pod: base64 of gzip.
// Plain text would not arrive as written, because Kubernetes expands $(NAME)
// and $$ in it.
func EncodeSource(source string) (string, error) {
	packer, _ := packers.Get().(*gzip.Writer)
	defer packers.Put(packer)
	var packed bytes.Buffer
	packer.Reset(&packed)
	if _, err := packer.Write([]byte(source)); err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	if err := packer.Close(); err != nil {
		return "", fmt.Errorf("compress source: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// IsCompiled reports whether what runs is a binary, so that no source travels to a pod.
func IsCompiled(runtime v1alpha2.Runtime) bool {
	language, err := languages.Of(runtime)
	return err == nil && language.Compiled != nil
}

// HasDependencies reports whether the dependencies make a difference. Those of no
// language make one, so that what reads them says what is wrong.
func HasDependencies(runtime v1alpha2.Runtime, dependencies string) bool {
	if strings.TrimSpace(dependencies) == "" {
		return false
	}
	language, err := languages.Of(runtime)
	return err != nil || language.Packages.Matters(dependencies)
}

// ReplicaBounds are the least and the greatest number of replicas of a Function
// with a scaleConfig.
func ReplicaBounds(fn *v1alpha2.Function) (low, high int32) {
	low = ptr.Deref(fn.Spec.ScaleConfig.MinReplicas, 1)
	high = ptr.Deref(fn.Spec.ScaleConfig.MaxReplicas, max(low, 1))
	return low, high
}
