package manifest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/crdschema"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/schedule"
	"github.com/rouse-run/rouse/runtimes/languages"
)

const (
	kindFunction     = "Function"
	kindSubscription = "Subscription"
	kindSchedule     = "Schedule"
	kindDoor         = "Door"
	kindAPIRule      = "APIRule"
	kindConfigMap    = "ConfigMap"
	kindSecret       = "Secret"
)

// decoder decodes objects into a Set.
type decoder struct {
	known map[schema.GroupVersionKind]*crdschema.Definition
	sinks routing.Policy

	set      Set
	problems []Problem
	// seen holds the position of each object, declared the Services that exist, including those of Functions with problems.
	seen     map[string]Position
	declared map[types.NamespacedName]bool
	// subscribed holds the objects of set.Subscriptions.
	subscribed []object
	// functions holds the objects of set.Functions, doors those of set.Doors.
	functions, doors []object

	reported map[string]bool
}

func newDecoder(known map[schema.GroupVersionKind]*crdschema.Definition, sinks routing.Policy, problems []Problem) *decoder {
	return &decoder{
		known: known, sinks: sinks, problems: problems,
		seen: map[string]Position{}, declared: map[types.NamespacedName]bool{}, reported: map[string]bool{},
	}
}

// add adds an object to the Set, or a problem.
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

// addCustom adds a Function, Subscription, Schedule, Door or APIRule that its CRD accepts.
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
	case kindSchedule:
		timed := &rousev1alpha1.Schedule{}
		if d.into(o, timed) {
			d.addSchedule(o, timed)
		}
	case kindDoor:
		opened := &rousev1alpha1.Door{}
		if d.into(o, opened) {
			opened.UID, opened.Generation, opened.CreationTimestamp, opened.DeletionTimestamp = "", 0, metav1.Time{}, nil
			d.set.Doors, d.doors = append(d.set.Doors, Door{Door: opened, At: o.position(), object: *o}), append(d.doors, *o)
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
		made.Dependencies = o.source("spec.source.inline.dependencies", fn.Spec.Source.Inline.Dependencies)
	}
	d.set.Functions, d.functions = append(d.set.Functions, made), append(d.functions, *o)
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

func (d *decoder) addSchedule(o *object, timed *rousev1alpha1.Schedule) {
	if _, err := schedule.New(timed); err != nil {
		field, _, _ := strings.Cut(err.Error(), " ")
		d.note(o.problem(strings.TrimSuffix(field, ":"), err.Error(), ""))
		return
	}
	d.set.Schedules = append(d.set.Schedules, Schedule{Schedule: timed, At: o.position()})
}

// checkSinks adds warnings for Subscriptions whose sink, or the Secret by which they sign, is not in the folder.
func (d *decoder) checkSinks() {
	for i := range d.set.Subscriptions {
		sub := &d.set.Subscriptions[i]
		if webhook := sub.Route.Delivery.Webhook; webhook != nil {
			webhook.Keys = d.signingKeys(&d.subscribed[i], sub.Namespace, webhook.SecretName)
		}
		d.checkSink(&d.subscribed[i], "spec.sink", sub.Route)
		if sub.Route.DeadLetters != nil {
			d.checkSink(&d.subscribed[i], "spec.delivery.deadLetter.sink", *sub.Route.DeadLetters)
		}
	}
}

// checkDoors leaves out Doors that cannot be. A Secret may be in a file that is not there yet.
func (d *decoder) checkDoors() {
	var kept []Door
	for i, each := range d.set.Doors {
		_, err := door.New(each.Door, d.set.DoorKeys(each.Door))
		if err == nil || errors.Is(err, door.ErrNoSecret) {
			kept = append(kept, each)
			continue
		}
		field, _, _ := strings.Cut(err.Error(), ":")
		d.note(d.doors[i].problem(field, err.Error(), ""))
	}
	d.set.Doors = kept
}

// signingKeys returns the keys by which a Subscription signs, nil if they are missing or none: its events wait.
func (d *decoder) signingKeys(o *object, namespace, secret string) *routing.SigningKeys {
	keys := d.set.keys(types.NamespacedName{Namespace: namespace, Name: secret})
	if _, err := door.NewSigner(keys); err != nil {
		problem := o.problem("spec.delivery.webhook.secretName", fmt.Sprintf("Secret %s: %s: events of this Subscription wait", secret, err),
			"add it to secrets.local.yaml, which is for this machine alone")
		problem.Warning = true
		d.note(problem)
		return nil
	}
	return (*routing.SigningKeys)(keys)
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

// ignored reports whether local mode does not support the object's kind, and warns if the user could miss it.
func (d *decoder) ignored(o *object) bool {
	kind := o.GroupVersionKind()
	core := kind.Kind == kindConfigMap || kind.Kind == kindSecret
	if d.known[kind] != nil || core && o.GetAPIVersion() == "v1" {
		return false
	}
	if core || slices.Contains([]string{kindFunction, kindSubscription, kindSchedule, kindDoor, kindAPIRule}, kind.Kind) {
		d.note(o.problem("apiVersion", fmt.Sprintf("no matches for kind %q in version %q", kind.Kind, o.GetAPIVersion()), d.versionOf(o)))
		return true
	}
	if d.reported[kind.Kind] || isUnneededLocally(kind.Kind) {
		return true
	}
	d.reported[kind.Kind] = true
	problem := o.problem("kind", fmt.Sprintf("local mode has no %s: it is left out", kind.Kind), "")
	problem.Remedy = conversion(o, "puts it into its Functions")
	problem.Warning = true
	d.note(problem)
	return true
}

// versionOf returns advice to use the newest version of a kind, and the command that writes it.
func (d *decoder) versionOf(o *object) string {
	newest := schema.GroupVersion{Version: "v1"}
	for known := range d.known {
		if known.Kind == o.GetKind() && (newest.Group == "" || version.CompareKubeAwareVersionStrings(known.Version, newest.Version) > 0) {
			newest = known.GroupVersion()
		}
	}
	return cmp.Or(conversion(o, "writes it as "+newest.String()), "use "+newest.String())
}

// isUnneededLocally reports whether Functions run the same without objects of the kind.
func isUnneededLocally(kind string) bool {
	return slices.Contains([]string{
		"Namespace", "Kustomization", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota", "LimitRange",
		"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
	}, kind)
}

// addCore adds a ConfigMap or a Secret.
func (d *decoder) addCore(o *object) {
	before := len(d.problems)
	if o.GetKind() == kindConfigMap {
		config := &corev1.ConfigMap{}
		if d.strictly(o, config, config) {
			d.checkKeys(o, "data", slices.Sorted(maps.Keys(config.Data)))
			d.checkKeys(o, "binaryData", slices.Sorted(maps.Keys(config.BinaryData)))
		}
		if !d.broken(before) {
			d.set.ConfigMaps = append(d.set.ConfigMaps, config)
		}
		return
	}
	secret := &corev1.Secret{}
	if d.strictly(o, secret, secret) {
		d.checkKeys(o, "data", slices.Sorted(maps.Keys(secret.Data)))
		d.checkKeys(o, "stringData", slices.Sorted(maps.Keys(secret.StringData)))
	}
	if d.broken(before) {
		return
	}
	// As in an API server, stringData takes precedence.
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
	d.set.Secrets = append(d.set.Secrets, secret)
}

// strictly decodes the object, and reports its unknown fields.
func (d *decoder) strictly(o *object, typed any, meta metav1.Object) bool {
	if !d.into(o, typed) {
		return false
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, wrong := range strict.Errors() {
			d.note(o.problem(unknownField(wrong), wrong.Error(), "check its spelling and its indentation, or remove it"))
		}
	}
	d.noteFields(o, apivalidation.ValidateObjectMetaAccessor(meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")))
	return true
}

// unknownField returns the path in the error of a strict decoder.
func unknownField(err error) string {
	var path string
	if _, scanErr := fmt.Sscanf(err.Error(), "unknown field %q", &path); scanErr != nil {
		return ""
	}
	return path
}

func (d *decoder) checkKeys(o *object, path string, keys []string) {
	for _, key := range keys {
		for _, text := range validation.IsConfigMapKey(key) {
			d.noteFields(o, field.ErrorList{field.Invalid(field.NewPath(path).Key(key), key, text)})
		}
	}
}

// APIRule is an APIRule with the CRD's defaults, whichever version it is written in.
type APIRule struct {
	*gatewayv2.APIRule
	// At is the position of the object.
	At Position

	object object
}

// Problem returns a problem about a field of the APIRule, such as ".spec.rules[0].service".
func (r APIRule) Problem(path, message, remedy string) Problem {
	return r.object.problem(strings.TrimPrefix(path, "."), message, remedy)
}

func (d *decoder) addAPIRule(o *object) {
	rule := &gatewayv2.APIRule{}
	if !d.into(o, rule) {
		return
	}
	// A cluster sets these fields, and ignores them in files.
	rule.UID, rule.Generation, rule.CreationTimestamp, rule.DeletionTimestamp = "", 0, metav1.Time{}, nil
	rule.Status = gatewayv2.APIRuleStatus{}
	d.set.APIRules = append(d.set.APIRules, APIRule{APIRule: rule, At: o.position(), object: *o})
}
