package manifest

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/routing"
)

// Set holds the objects of a folder, without those that have a problem.
type Set struct {
	Functions     []Function
	Subscriptions []Subscription
	Schedules     []Schedule
	Doors         []Door
	APIRules      []APIRule
	ConfigMaps    []*corev1.ConfigMap
	Secrets       []*corev1.Secret
	// Files lists all files that were read, including those with problems.
	Files []string
}

// Function is a Function with the CRD's defaults.
type Function struct {
	*serverlessv1alpha2.Function
	// At is the position of the object.
	At Position
	// Source is the position of the inline source, so that line n of the handler is Source.Line+n-1. It is
	// zero when the lines of the source are not lines of a file.
	Source Position
	// Files are the files of its source; nil when the spec has all of it, or a repository.
	Files *Files
	// Dependencies is the position of the inline dependencies, which Kustomize may have taken from a file; zero like Source.
	Dependencies Position
}

// Subscription is a Subscription with the CRD's defaults, and its route.
type Subscription struct {
	*eventingv1alpha2.Subscription
	// At is the position of the object.
	At Position
	// Route is its route in the data plane.
	Route routing.Route
}

// Schedule is a Schedule with the CRD's defaults.
type Schedule struct {
	*rousev1alpha1.Schedule
	// At is the position of the object.
	At Position
}

// Door is a Door with the CRD's defaults.
type Door struct {
	*rousev1alpha1.Door
	// At is the position of the object.
	At Position

	object object
}

// Problem returns a problem about a field of the Door.
func (d Door) Problem(path, message, remedy string) Problem {
	return d.object.problem(path, message, remedy)
}

// DoorKeys returns the keys in the Secret of a Door, nil without one.
func (s *Set) DoorKeys(d *rousev1alpha1.Door) *door.Keys {
	return s.keys(types.NamespacedName{Namespace: d.Namespace, Name: door.SecretName(d)})
}

// keys returns the keys in a Secret, nil without one.
func (s *Set) keys(name types.NamespacedName) *door.Keys {
	for _, secret := range s.Secrets {
		namespace := cmp.Or(secret.Namespace, DefaultNamespace)
		if name.Name != "" && name == (types.NamespacedName{Namespace: namespace, Name: secret.Name}) {
			return &door.Keys{Current: secret.Data[door.KeyCurrent], Previous: secret.Data[door.KeyPrevious]}
		}
	}
	return nil
}

const (
	envTimeout = "FUNC_TIMEOUT"
	// defaultTimeout is the default of the runtimes, maxTimeout the largest accepted value.
	defaultTimeout = 180 * time.Second
	maxTimeout     = 24 * time.Hour
	// silenceGrace is added to a call's timeout before a server counts as hung: the server itself responds for handlers that time out.
	silenceGrace = 10 * time.Second
)

// Timeout returns the timeout of a call from FUNC_TIMEOUT; 0 when it is invalid.
func (f Function) Timeout() time.Duration {
	found := time.Duration(0)
	for i := range f.Spec.Env {
		if f.Spec.Env[i].Name != envTimeout {
			continue
		}
		found = 0 // the last of a name takes precedence
		if seconds, err := strconv.ParseFloat(f.Spec.Env[i].Value, 64); err == nil && seconds > 0 {
			found = time.Duration(math.Min(seconds, maxTimeout.Seconds()) * float64(time.Second))
		}
	}
	return found
}

// Silence returns the time without any response after which the Function's server counts as hung.
func (f Function) Silence() time.Duration {
	if timeout := f.Timeout(); timeout > 0 {
		return timeout + silenceGrace
	}
	return defaultTimeout + silenceGrace
}

// Position is a file and a line in it.
type Position struct {
	// File is the path below the folder as the user wrote it.
	File string
	// Line and Column count from 1, and are 0 when unknown.
	Line, Column int
}

// String returns the form that editors and terminals turn into a link: "orders/pricing.yaml:12".
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Problem describes an error at a position.
type Problem struct { //nolint:errname // what is reported of a file, a warning too
	Position
	// Object is the object in question, such as "Function orders/pricing"; empty when a file cannot be read.
	Object string
	// Field is the path of the field in the object; empty when it concerns none.
	Field string
	// Message describes the error, as a cluster does where a cluster would refuse the object.
	Message string
	// Remedy describes what to do; it may be empty.
	Remedy string
	// Warning reports that the object is used nevertheless.
	Warning bool
}

// Error returns the problem on one line.
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

// Concerns reports whether the problem may be the reason that an object is missing from the Set: it is about the object, or about a file
// whose objects are unknown.
func (p Problem) Concerns(kind, namespace, name string) bool {
	return !p.Warning && (p.Object == "" || p.Object == kind+" "+namespace+"/"+name)
}
