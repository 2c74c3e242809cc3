package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kedarules"
)

// FunctionDetail is a Function on a page of its own.
type FunctionDetail struct {
	Function

	// Why explains its number of replicas.
	Why          []kedarules.Explanation `json:"why"`
	Files        []SourceFile            `json:"files"`
	Repository   string                  `json:"repository,omitempty"`
	Dependencies string                  `json:"dependencies,omitempty"`
	// Environment lists the names of its variables.
	Environment []string `json:"environment"`
	// Conditions lists the conditions of its status, and Pods its replicas.
	Conditions []Condition `json:"conditions,omitempty"`
	Pods       []Pod       `json:"pods"`
	// Versions are those that the cluster keeps, the newest first; RollbackTo is the one that is served instead of the newest.
	Versions   []Version `json:"versions,omitempty"`
	RollbackTo string    `json:"rollbackTo,omitempty"`
	// Happenings are the Events of Kubernetes about it, the newest first.
	Happenings []Happening `json:"happenings,omitempty"`
	// Unknown says what could not be read, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// The levels of conditions and findings.
const (
	LevelGood    = "good"
	LevelWarning = "warning"
	LevelBad     = "bad"
)

// Condition is a condition of a status.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Level   string    `json:"level"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// stalled is the only type of a condition that is bad when it is true.
const stalled = "Stalled"

// ConditionsOf returns conditions with their level. Nothing is known to be wrong while a status is unknown.
func ConditionsOf(conditions []metav1.Condition) []Condition {
	found := make([]Condition, 0, len(conditions))
	for i := range conditions {
		c := &conditions[i]
		level := LevelGood
		switch {
		case c.Status == metav1.ConditionUnknown:
			level = LevelWarning
		case (c.Status == metav1.ConditionFalse) != (c.Type == stalled):
			level = LevelBad
		}
		found = append(found, Condition{
			Type: c.Type, Status: string(c.Status), Level: level, Reason: c.Reason, Message: bounded(c.Message), Since: c.LastTransitionTime.Time,
		})
	}
	return found
}

// Pod is a replica: a pod, or a process of local mode.
type Pod struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// State is starting, running, ending, or the reason of Kubernetes, such as ImagePullBackOff.
	State string `json:"state"`
	// Problem is the reason that it does not run.
	Problem  string    `json:"problem,omitempty"`
	Restarts int       `json:"restarts"`
	Since    time.Time `json:"since"`
}

// Version is a version of a Function.
type Version struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Pods  int       `json:"pods"`
	Runs  bool      `json:"runs,omitempty"`
	// State is VersionServing or VersionRollingOut, and empty for a version that a rollback can choose.
	State string `json:"state,omitempty"`
}

// The states of a version.
const (
	VersionServing    = "serving"
	VersionRollingOut = "rollingOut"
)

// Happening is what Kubernetes has recorded as an Event.
type Happening struct {
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
	Warning bool      `json:"warning,omitempty"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

const (
	// maxShown bounds the pods, versions and happenings of a Function that are shown, maxMessage the text of each.
	maxShown   = 50
	maxMessage = 2 << 10
)

// bounded cuts a text that a page would not show.
func bounded(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " …"
}

// bound bounds the lists of a detail, and the texts in them.
func (d *FunctionDetail) bound() {
	d.Pods = slices.Clip(append([]Pod{}, d.Pods[:min(len(d.Pods), maxShown)]...))
	d.Versions, d.Happenings = d.Versions[:min(len(d.Versions), maxShown)], slices.Clone(d.Happenings[:min(len(d.Happenings), maxShown)])
	for i := range d.Pods {
		d.Pods[i].Problem = bounded(d.Pods[i].Problem)
	}
	for i := range d.Happenings {
		d.Happenings[i].Message = bounded(d.Happenings[i].Message)
	}
}

// SourceFile is a file of a Function's source.
type SourceFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// DetailOf returns a Function of a list for its home to describe. It fails with ErrNotFound.
func DetailOf(functions []Function, name types.NamespacedName) (FunctionDetail, error) {
	at := slices.IndexFunc(functions, func(f Function) bool { return f.Namespace == name.Namespace && f.Name == name.Name })
	if at < 0 {
		return FunctionDetail{}, fmt.Errorf("%w: there is no Function %s", ErrNotFound, name)
	}
	return FunctionDetail{Function: functions[at], Files: []SourceFile{}, Environment: []string{}}, nil
}

// Describe adds what the spec says about the source, and the names of the variables without their values.
func (d *FunctionDetail) Describe(spec *serverlessv1alpha2.FunctionSpec) {
	if git := spec.Source.GitRepository; git != nil {
		d.Repository = git.URL
	}
	if inline := spec.Source.Inline; inline != nil {
		d.Dependencies = inline.Dependencies
		if inline.Source != "" {
			d.Files = append(d.Files, SourceFile{Name: "handler", Text: inline.Source})
		}
	}
	for i := range spec.Env {
		d.Environment = append(d.Environment, spec.Env[i].Name)
	}
}
