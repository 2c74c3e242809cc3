package manifest

import (
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// Set is what a folder asks for, without the objects that have a problem.
type Set struct {
	Functions     []Function
	Subscriptions []Subscription
	APIRules      []APIRule
	ConfigMaps    []*corev1.ConfigMap
	Secrets       []*corev1.Secret
	// Files are all that were read, also those with problems.
	Files []string
}

// Function is a Function with the CRD's defaults.
type Function struct {
	*serverlessv1alpha2.Function
	// At is where it stands.
	At Position
	// Source is the first line of the inline source, so that line n of the handler is Source.Line+n-1. It is
	// zero when the lines of the source are no lines of a file.
	Source Position
}

// Subscription is a Subscription with the CRD's defaults, and what it means.
type Subscription struct {
	*eventingv1alpha2.Subscription
	// At is where it stands.
	At Position
	// Route is what it means to the data plane.
	Route routing.Route
}

const (
	envTimeout = "FUNC_TIMEOUT"
	// defaultTimeout is the runtimes', and maxTimeout what is believed.
	defaultTimeout = 180 * time.Second
	maxTimeout     = 24 * time.Hour
	// silenceGrace is how much longer than a call may take a server may be silent: it answers for handlers that do not.
	silenceGrace = 10 * time.Second
)

// Timeout of a call in seconds, as in FUNC_TIMEOUT; 0 when that makes no sense.
func (f Function) Timeout() time.Duration {
	found := time.Duration(0)
	for i := range f.Spec.Env {
		if f.Spec.Env[i].Name != envTimeout {
			continue
		}
		found = 0 // the last of a name wins
		if seconds, err := strconv.ParseFloat(f.Spec.Env[i].Value, 64); err == nil && seconds > 0 {
			found = time.Duration(math.Min(seconds, maxTimeout.Seconds()) * float64(time.Second))
		}
	}
	return found
}

// Silence is how long the Function's server may give no answer at all: longer, and something keeps it from answering.
func (f Function) Silence() time.Duration {
	if timeout := f.Timeout(); timeout > 0 {
		return timeout + silenceGrace
	}
	return defaultTimeout + silenceGrace
}

// Position is a file and a line in it.
type Position struct {
	// File as the user knows it: below the folder as it was given.
	File string
	// Line and Column count from 1, and are 0 when they are not known.
	Line, Column int
}

// String is the form that editors and terminals make a link of: "orders/pricing.yaml:12".
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Problem is what is wrong at a position.
type Problem struct { //nolint:errname // what is reported of a file, a warning too
	Position
	// Object that it is about, such as "Function orders/pricing"; empty when a file cannot be read.
	Object string
	// Message is what is wrong, in the words of a cluster where a cluster would refuse it.
	Message string
	// Remedy is what to do; it may be empty.
	Remedy string
	// Warning is true when the object is used nevertheless.
	Warning bool
}

// Error is all of it on one line.
func (p Problem) Error() string {
	var text strings.Builder
	text.WriteString(p.String())
	text.WriteString(": ")
	if p.Object != "" {
		text.WriteString(p.Object + ": ")
	}
	text.WriteString(strings.Join(strings.Fields(p.Message), " "))
	if p.Remedy != "" {
		text.WriteString(" (" + p.Remedy + ")")
	}
	return text.String()
}

// Concerns reports whether the problem may be why an object is missing from the Set: it is about the object, or about a
// file whose objects are not known.
func (p Problem) Concerns(kind, namespace, name string) bool {
	return !p.Warning && (p.Object == "" || p.Object == kind+" "+namespace+"/"+name)
}
