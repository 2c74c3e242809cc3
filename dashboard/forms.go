package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// FunctionDraft has the fields of a Function that a form can change.
type FunctionDraft struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Runtime   string `json:"runtime"`
	// Source is nil when the spec has none, because it comes from files or a repository: a form leaves it as it is.
	Source       *string `json:"source"`
	Dependencies string  `json:"dependencies"`
	// Min and Max are nil for a fixed number of replicas.
	Min *int64 `json:"min"`
	Max *int64 `json:"max"`
}

// SubscriptionDraft has the fields of a Subscription that a form can change.
type SubscriptionDraft struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Source    string   `json:"source"`
	Types     []string `json:"types"`
	// Function is the name of the sink, a Function of the same namespace.
	Function string `json:"function"`
}

// formFields maps paths of objects to the fields of a form. A path below one belongs to it, and the longest wins.
var formFields = map[string]map[string]string{
	KindFunction: {
		"metadata.name": "function.name", "metadata.namespace": "function.namespace", "spec.runtime": "function.runtime",
		"spec.source": "function.source", "spec.source.inline.source": "function.source", "spec.source.inline.dependencies": "function.dependencies",
		"spec.scaleConfig": "function.max", "spec.scaleConfig.minReplicas": "function.min", "spec.scaleConfig.maxReplicas": "function.max",
	},
	KindSubscription: {
		"metadata.name": "subscription.name", "metadata.namespace": "subscription.name", "spec.source": "subscription.source",
		"spec.types": "subscription.types", "spec.sink": "subscription.name",
	},
}

// fieldOf returns the field of the form that a refusal is about, empty for none.
func fieldOf(r Refusal) string {
	best := ""
	for path := range formFields[r.Kind] {
		rest, below := strings.CutPrefix(r.Path, path)
		if below && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(path) > len(best) {
			best = path
		}
	}
	return formFields[r.Kind][best]
}

func functionDraft(fn *unstructured.Unstructured) FunctionDraft {
	draft := FunctionDraft{Namespace: fn.GetNamespace(), Name: fn.GetName()}
	draft.Runtime, _, _ = unstructured.NestedString(fn.Object, "spec", "runtime")
	if source, has, _ := unstructured.NestedString(fn.Object, "spec", "source", "inline", "source"); has && source != "" {
		draft.Source = &source
	}
	draft.Dependencies, _, _ = unstructured.NestedString(fn.Object, "spec", "source", "inline", "dependencies")
	for field, into := range map[string]**int64{"minReplicas": &draft.Min, "maxReplicas": &draft.Max} {
		if n, has, _ := unstructured.NestedInt64(fn.Object, "spec", "scaleConfig", field); has {
			*into = &n
		}
	}
	return draft
}

// edits returns what a form sets, and what is wrong with it before anybody else is asked.
func (p *proposal) edits() ([]Edit, []problem) {
	if p.Function == nil && p.Subscription == nil {
		return nil, []problem{{Message: "the draft has neither a function nor a subscription", Remedy: "send one of them"}}
	}
	var edits []Edit
	var problems []problem
	if f := p.Function; f != nil {
		problems = append(problems, f.check()...)
		edits = append(edits, Edit{Ref{KindFunction, types.NamespacedName{Namespace: f.Namespace, Name: f.Name}}, f.fields()})
	}
	if s := p.Subscription; s != nil {
		problems = append(problems, s.check()...)
		edits = append(edits, Edit{Ref{KindSubscription, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}}, s.fields()})
	}
	return edits, problems
}

func (f *FunctionDraft) check() []problem {
	problems := checkNames("function", f.Namespace, f.Name)
	if f.Source != nil && strings.TrimSpace(*f.Source) == "" {
		problems = append(problems, problem{Field: "function.source", Message: "the code is empty", Remedy: "write a handler"})
	}
	if (f.Min == nil) != (f.Max == nil) {
		problems = append(problems, problem{
			Field: "function.max", Message: "one of the two numbers of replicas is missing", Remedy: "give the least and the most, or neither",
		})
	}
	return problems
}

func (s *SubscriptionDraft) check() []problem {
	problems := checkNames("subscription", s.Namespace, s.Name)
	if len(s.Types) == 0 {
		problems = append(problems, problem{Field: "subscription.types", Message: "no type is named", Remedy: "name one, such as order.received"})
	}
	if len(validation.IsDNS1123Label(s.Function)) > 0 {
		problems = append(problems, problem{
			Field: "function.name", Message: "no Function can have this name", Remedy: "use lower case letters, digits and -",
		})
	}
	return problems
}

func checkNames(of, namespace, name string) []problem {
	var problems []problem
	for field, value := range map[string]string{".namespace": namespace, ".name": name} {
		if len(validation.IsDNS1123Label(value)) > 0 {
			problems = append(problems, problem{
				Field: of + field, Message: "this cannot be a name", Remedy: "use up to 63 lower case letters, digits and -, the first and the last no -",
			})
		}
	}
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

func (f *FunctionDraft) fields() map[string]any {
	spec := map[string]any{"runtime": f.Runtime}
	if f.Source != nil {
		inline := map[string]any{"source": *f.Source, "dependencies": nil}
		if f.Dependencies != "" {
			inline["dependencies"] = f.Dependencies
		}
		spec["source"] = map[string]any{"inline": inline}
	}
	spec["scaleConfig"] = nil
	if f.Min != nil && f.Max != nil {
		spec["scaleConfig"] = map[string]any{"minReplicas": *f.Min, "maxReplicas": *f.Max}
	}
	return map[string]any{"apiVersion": serverlessv1alpha2.GroupVersion.String(), "kind": KindFunction, "spec": spec}
}

func (s *SubscriptionDraft) fields() map[string]any {
	named := make([]any, len(s.Types))
	for i, each := range s.Types {
		named[i] = each
	}
	return map[string]any{"apiVersion": eventingv1alpha2.GroupVersion.String(), "kind": KindSubscription, "spec": map[string]any{
		"sink": "http://" + s.host(), "source": s.Source, "types": named,
	}}
}

// host is that of the Function's Service.
func (s *SubscriptionDraft) host() string {
	return fmt.Sprintf("%s.%s.svc.cluster.local", s.Function, s.Namespace)
}

// keepSink has a Subscription keep the URL of its sink, which may have a port and a path. One that leads elsewhere is a problem.
func (s *SubscriptionDraft) keepSink(edit *Edit, written *unstructured.Unstructured) *problem {
	sink, _, _ := unstructured.NestedString(written.Object, "spec", "sink")
	leads, err := url.Parse(sink)
	if err != nil || leads.Hostname() != s.host() {
		return &problem{
			Field: "subscription.name", Message: "the Subscription of this name leads to another sink", Remedy: "choose another name",
		}
	}
	spec, _ := edit.Fields["spec"].(map[string]any)
	spec["sink"] = sink
	return nil
}

// PauseFields are the fields of an Edit that pauses or resumes a Subscription. Without a value the field has no owner.
func PauseFields(pause bool) map[string]any {
	var value any
	if pause {
		value = true
	}
	return map[string]any{
		"apiVersion": eventingv1alpha2.GroupVersion.String(), "kind": KindSubscription, "spec": map[string]any{"paused": value},
	}
}

// hidden stands for the value of a variable.
const hidden = "(not shown)"

// withoutValues returns the YAML of an object without the values of its variables.
func withoutValues(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return "", fmt.Errorf("read the YAML of an object: %w", err)
	}
	hide(&root, false)
	var shown strings.Builder
	encoder := yaml.NewEncoder(&shown)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return "", fmt.Errorf("write the YAML of an object: %w", err)
	}
	return shown.String(), nil
}

// lastApplied is an annotation in which kubectl keeps the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// hide replaces the values of variables. Comments in them may have a value, too.
func hide(node *yaml.Node, variables bool) {
	if variables {
		node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	}
	for i := range node.Content {
		inside := variables
		if node.Kind == yaml.MappingNode && i%2 == 1 {
			key := node.Content[i-1].Value
			inside = variables || key == "env"
			if variables && key == "value" || key == lastApplied {
				node.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: hidden}
				continue
			}
		}
		hide(node.Content[i], inside)
	}
}

// diffLine is a line of a difference.
type diffLine struct {
	// Op is "+", "-", " ", or "…" for lines that are left out.
	Op   string `json:"op"`
	Text string `json:"text"`
}

// diffContext is the number of equal lines around a difference.
const diffContext = 3

// diff returns what differs between two texts, with the lines around it.
func diff(before, after string) []diffLine {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	lines := []diffLine{}
	add := func(op string, texts []string) {
		for _, text := range texts {
			lines = append(lines, diffLine{op, text})
		}
	}
	for i, group := range difflib.NewMatcher(a, b).GetGroupedOpCodes(diffContext) {
		if i > 0 {
			lines = append(lines, diffLine{Op: "…"})
		}
		for _, code := range group {
			if code.Tag == 'e' {
				add(" ", a[code.I1:code.I2])
				continue
			}
			add("-", a[code.I1:code.I2])
			add("+", b[code.J1:code.J2])
		}
	}
	return lines
}

// YAML writes an object with lines as blocks.
func YAML(object map[string]any) (string, error) {
	var shown strings.Builder
	encoder := yaml.NewEncoder(&shown)
	encoder.SetIndent(2)
	if err := encoder.Encode(object); err != nil {
		return "", fmt.Errorf("write the YAML of an object: %w", err)
	}
	return shown.String(), nil
}
