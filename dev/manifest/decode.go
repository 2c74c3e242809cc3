package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/runtimes/languages"
)

const (
	kindFunction     = "Function"
	kindSubscription = "Subscription"
	kindAPIRule      = "APIRule"
	kindConfigMap    = "ConfigMap"
	kindSecret       = "Secret"
)

// decoder makes a Set of objects.
type decoder struct {
	known map[schema.GroupVersionKind]*crdschema.Definition
	sinks routing.Policy

	set      Set
	problems []Problem
	// seen is where each object stands, declared which Services there would be, also those of Functions with problems.
	seen     map[string]Position
	declared map[types.NamespacedName]bool
	// subscribed are the objects of set.Subscriptions.
	subscribed []object
	reported   map[string]bool
}

func newDecoder(known map[schema.GroupVersionKind]*crdschema.Definition, sinks routing.Policy, problems []Problem) *decoder {
	return &decoder{
		known: known, sinks: sinks, problems: problems,
		seen: map[string]Position{}, declared: map[types.NamespacedName]bool{}, reported: map[string]bool{},
	}
}

// add adds an object to the Set, or reports why not.
func (d *decoder) add(ctx context.Context, o object) {
	if !d.named(&o) || d.ignored(&o) {
		return
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(DefaultNamespace)
	}
	if o.GetKind() == kindFunction {
		d.declared[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = true
	}
	object := describe(o.Object)
	if first, twice := d.seen[object]; twice && o.GetName() != "" {
		d.note(o.problem("metadata.name", fmt.Sprintf("is already in %s", first), "remove one of the two, or give it another name"))
		return
	}
	d.seen[object] = o.position()
	before := len(d.problems)
	definition := d.known[o.GroupVersionKind()]
	if definition == nil {
		d.addCore(&o)
		return
	}
	unknown, errs := definition.Admit(ctx, &o.Unstructured)
	for _, path := range unknown {
		d.note(o.problem(path, fmt.Sprintf("unknown field %q", path), "check its spelling and its indentation, or remove it"))
	}
	d.noteFields(&o, errs)
	if len(d.problems) == before || !d.broken(before) {
		d.addCustom(&o)
	}
}

func (d *decoder) note(problems ...Problem) { d.problems = append(d.problems, problems...) }

func (d *decoder) broken(since int) bool {
	for _, problem := range d.problems[since:] {
		if !problem.Warning {
			return true
		}
	}
	return false
}

func (d *decoder) noteFields(o *object, errs field.ErrorList) {
	for _, err := range errs {
		problem := o.problem(err.Field, err.Error(), remedyOf(err))
		problem.Position = o.doc.atValue(o.within(err.Field), err.BadValue)
		d.note(problem)
	}
}

func remedyOf(err *field.Error) string {
	if err.Type == field.ErrorTypeRequired {
		return "add the field"
	}
	return ""
}

// named reports whether the object has an apiVersion, a kind and a name.
func (d *decoder) named(o *object) bool {
	version, kind := o.GetAPIVersion() != "", o.GetKind() != ""
	switch {
	case version && kind:
		return true
	case !version && !kind:
		d.note(Problem{Position: o.position(), Message: "is no Kubernetes object: apiVersion and kind are missing", Warning: true})
	case !version:
		d.note(o.problem("kind", "apiVersion not set", "add apiVersion"))
	default:
		d.note(o.problem("apiVersion", "kind not set", "add kind"))
	}
	return false
}

// addCustom adds a Function, a Subscription or an APIRule that its CRD accepts.
func (d *decoder) addCustom(o *object) {
	switch o.GetKind() {
	case kindFunction:
		fn := &serverlessv1alpha2.Function{}
		if d.into(o, fn) {
			d.addFunction(o, fn)
		}
	case kindSubscription:
		sub := &eventingv1alpha2.Subscription{}
		if d.into(o, sub) {
			d.addSubscription(o, sub)
		}
	case kindAPIRule:
		d.addAPIRule(o)
	}
}

// into decodes the object into its type.
func (d *decoder) into(o *object, typed any) bool {
	content, err := json.Marshal(o.Object)
	if err == nil {
		err = json.Unmarshal(content, typed)
	}
	if err == nil {
		return true
	}
	path := ""
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		path = wrong.Field
	}
	d.note(o.problem(path, err.Error(), ""))
	return false
}

func (d *decoder) addFunction(o *object, fn *serverlessv1alpha2.Function) {
	_, err := languages.Of(fn.Spec.Runtime)
	wrong := admission.Function(fn, err == nil)
	for _, problem := range wrong {
		d.note(o.problem(problem.Field, problem.Text, ""))
	}
	for _, warning := range admission.FunctionWarnings(fn) {
		problem := o.problem(warning.Field, warning.Text, "")
		problem.Warning = true
		d.note(problem)
	}
	if len(wrong) > 0 {
		return
	}
	made := Function{Function: fn, At: o.position()}
	if fn.Spec.Source.Inline != nil {
		made.Source = o.source("spec.source.inline.source", fn.Spec.Source.Inline.Source)
	}
	d.set.Functions = append(d.set.Functions, made)
}

func (d *decoder) addSubscription(o *object, sub *eventingv1alpha2.Subscription) {
	if errs := admission.Subscription(sub, d.sinks); len(errs) > 0 {
		d.noteFields(o, errs)
		return
	}
	route, err := routing.FromSubscription(sub, d.sinks)
	if err != nil {
		d.note(o.problem("spec.types", err.Error(), ""))
		return
	}
	d.set.Subscriptions = append(d.set.Subscriptions, Subscription{Subscription: sub, At: o.position(), Route: route})
	d.subscribed = append(d.subscribed, *o)
}

// checkSinks warns of Subscriptions whose sink is not in the folder.
func (d *decoder) checkSinks() {
	for i, sub := range d.set.Subscriptions {
		d.checkSink(&d.subscribed[i], "spec.sink", sub.Route)
		if sub.Route.DeadLetters != nil {
			d.checkSink(&d.subscribed[i], "spec.delivery.deadLetter.sink", *sub.Route.DeadLetters)
		}
	}
}

func (d *decoder) checkSink(o *object, path string, route routing.Route) {
	if route.Service.Name == "" || d.declared[route.Service] {
		return
	}
	problem := o.problem(path, fmt.Sprintf("service %s.%s not found in the folder: its events wait", route.Service.Name, route.Service.Namespace),
		strings.TrimSpace("add the Function "+route.Service.String()+", or correct the sink"))
	problem.Warning = true
	d.note(problem)
}
