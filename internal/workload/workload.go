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

// The variables for the address to which a Function publishes, and for the file with the token.
const (
	EnvPublisher      = "PUBLISHER_PROXY_ADDRESS"
	EnvPublisherToken = "PUBLISHER_TOKEN_FILE"
)

// Addresses are the installation's addresses for Functions.
type Addresses struct {
	// Publisher is the URL for publishing events.
	Publisher string
	// PublisherToken is the file of the token for publishing; empty without a token.
	PublisherToken string
	// TraceCollector is the URL for traces; it may be empty.
	TraceCollector string
}

// Environment returns the variables of a Function in an order in which they may refer to each other. The user's
// variables follow the defaults and override them; variables that must not be changed come last. The runtime and the
// encoded source need not be those of the spec; source is empty when the pod gets it in another way.
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
	// An unknown runtime has no language's variables; such a Function never gets a pod.
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

// lastOfEach keeps the last variable of each name: Kubernetes uses the last, and server-side apply rejects duplicate
// names.
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

// EnvBindingRoot is the variable with the folder of a Function's bindings: one folder per binding, with a file for each
// key of its Secret. Libraries read bindings there, and implementations of servicebinding.io mount them there.
const EnvBindingRoot = "SERVICE_BINDING_ROOT"

// BindingRoot is the default directory of bindings.
const BindingRoot = "/bindings"

// BindingVolumePrefix is the prefix of the volumes that implementations of servicebinding.io add to pods.
const BindingVolumePrefix = "servicebinding-"

// bindingRoot returns the variable for the folder of bindings if a Secret is mounted there. It is not set otherwise,
// because implementations of servicebinding.io expect it to be unset.
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

// EnvHandlerDependencies is the variable with the dependencies for an image of Kyma's contract.
const EnvHandlerDependencies = "FUNC_HANDLER_DEPENDENCIES"

// Inline is code that a pod of Kyma's contract writes to files itself.
type Inline struct{ Source, Dependencies string }

// FitsEnvironment reports whether each part fits in an environment variable.
func (i Inline) FitsEnvironment() bool {
	return len(i.Source) <= MaxSource && len(i.Dependencies) <= MaxSource
}

// KymaEnvironment returns the variables for an image of Kyma's contract. Inline is nil when the code is in files
// already.
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

// InlineOf returns the code in the result of KymaEnvironment, or nil.
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

// literal prevents Kubernetes from expanding $(NAME) and $$ in a value.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// The defaults of Functions.
const (
	// DefaultHTTPConcurrency is the target number of concurrent HTTP requests per replica.
	DefaultHTTPConcurrency = 50
	// DefaultHTTPWaitSeconds bounds the time that an HTTP request may wait for a pod.
	DefaultHTTPWaitSeconds = 60
)

// Tuning holds the scaling settings that a Function's annotations may change.
type Tuning struct {
	// PollingSeconds is KEDA's pollingInterval.
	PollingSeconds int64
	// CooldownSeconds is KEDA's cooldownPeriod.
	CooldownSeconds int64
	// LagThreshold is the target backlog per replica. At 0 the scaler derives it from the Function's Subscriptions.
	LagThreshold int64
	// HTTPConcurrency is the target number of concurrent HTTP requests per replica.
	HTTPConcurrency int64
	// HTTPWaitSeconds bounds the time that an HTTP request may wait for a pod.
	HTTPWaitSeconds int64
	// HTTPWake is true unless the Function opts out of being woken by HTTP.
	HTTPWake bool
}

// AnnotationError describes an invalid value of an annotation.
type AnnotationError struct {
	// Key is the key of the annotation.
	Key string
	// Text is the whole message, including the key.
	Text string
}

func (e AnnotationError) Error() string { return e.Text }

// TuningOf returns a Function's tuning: its annotations on top of the defaults, which are fixed for HTTP. The error
// names every invalid annotation.
func TuningOf(annotations map[string]string, defaults Tuning) (Tuning, error) {
	tuning, wrong := readTuning(annotations, defaults)
	problems := make([]error, len(wrong))
	for i := range wrong {
		problems[i] = wrong[i]
	}
	return tuning, errors.Join(problems...)
}

// TuningErrors returns the invalid tuning annotations.
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

// MaxSource is the maximum length of encoded source in a pod's environment. The kernel limits a variable to 128 KiB,
// including its name.
const MaxSource = 120 * 1024

// packers are compressors, each of which takes 800 KiB. The fixed level makes results reproducible.
var packers = sync.Pool{New: func() any {
	packer, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	return packer
}}

// EncodeSource encodes source for a pod's environment: base64 of gzip. Kubernetes would expand $(NAME) and $$ in plain
// text.
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

// IsCompiled reports whether the runtime runs a binary, so that the pod gets no source.
func IsCompiled(runtime v1alpha2.Runtime) bool {
	language, err := languages.Of(runtime)
	return err == nil && language.Compiled != nil
}

// HasDependencies reports whether the dependencies are not empty. It is true for an unknown runtime, so that the parser
// of dependencies reports the error.
func HasDependencies(runtime v1alpha2.Runtime, dependencies string) bool {
	if strings.TrimSpace(dependencies) == "" {
		return false
	}
	language, err := languages.Of(runtime)
	return err != nil || language.Packages.Matters(dependencies)
}

// ReplicaBounds returns the minimum and maximum number of replicas of a Function with a scaleConfig.
func ReplicaBounds(fn *v1alpha2.Function) (low, high int32) {
	low = ptr.Deref(fn.Spec.ScaleConfig.MinReplicas, 1)
	high = ptr.Deref(fn.Spec.ScaleConfig.MaxReplicas, max(low, 1))
	return low, high
}
