package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Repositories are the GitRepositories by name. nil means that they are unknown here, and that another component fills
// in their fields later.
type Repositories map[types.NamespacedName]Repository

// Finding is a change or a problem of one field of a Function.
type Finding struct {
	// Field is its path in v1alpha1.
	Field string
	// Why is the reason why the field is not converted as it is.
	Why string
	// Remedy is the action that the user should take.
	Remedy string
}

// String returns the finding on one line.
func (f Finding) String() string { return f.Field + ": " + f.Why + ": " + f.Remedy }

// Report lists what a conversion changed, and what it could not convert.
type Report struct {
	// Changed lists the fields that v1alpha2 expresses differently or not at all.
	Changed []Finding
	// Problems list the reasons why the Function cannot be converted.
	Problems []Finding
}

func (r *Report) changed(field, why, remedy string) {
	r.Changed = append(r.Changed, Finding{field, why, remedy})
}

func (r *Report) problem(field, why, remedy string) {
	r.Problems = append(r.Problems, Finding{field, why, remedy})
}

// Err returns all problems as one error, or nil.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	texts := make([]string, len(r.Problems))
	for i, problem := range r.Problems {
		texts[i] = problem.String()
	}
	return errors.New(strings.Join(texts, ". "))
}

// up is the state of one conversion to v1alpha2.
type up struct {
	old          *v1alpha1.Function
	repositories Repositories
	made         *v1alpha2.Function
	kept         newFields
	keep         oldFields
	report       Report
}

// Up converts a Function of v1alpha1 to v1alpha2. It returns nil when the report has problems. The URL of code in Git
// is that of the GitRepository or, without one, the URL that the Function stores. Up does not validate the result by
// the rules of v1alpha2.
func Up(old *v1alpha1.Function, repositories Repositories) (*v1alpha2.Function, Report) {
	u := &up{old: old.DeepCopy(), repositories: repositories, made: &v1alpha2.Function{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: "Function"},
	}}
	u.metadata()
	u.runtime()
	u.scale()
	u.resources()
	u.source()
	u.secretMounts()
	u.rest()
	u.made.Status = statusUp(&u.old.Status)
	u.remember()
	if len(u.report.Problems) > 0 {
		return nil, u.report
	}
	return u.made, u.report
}

func (u *up) metadata() {
	u.made.ObjectMeta = u.old.ObjectMeta
	u.made.Labels, u.made.Annotations = maps.Clone(u.old.Labels), maps.Clone(u.old.Annotations)
	delete(u.made.Annotations, v1alpha1.AnnotationOldFields)
	kept, err := take[newFields](u.made.Annotations, v1alpha1.AnnotationNewFields)
	if err != nil {
		u.report.problem(annotation(v1alpha1.AnnotationNewFields), err.Error(), "take it away")
	}
	u.kept = kept
}

func (u *up) runtime() {
	name := u.old.Spec.Runtime
	u.made.Spec.Runtime, u.keep.Runtime = carry(name, u.kept.Runtime, runtimeUp, runtimeDown)
	switch made := string(u.made.Spec.Runtime); {
	case made == name:
	case name == "":
		u.report.changed("spec.runtime", "it was "+formerDefault+" where it was not said; it becomes "+made, "try the code with it, and say it")
	default:
		u.report.changed("spec.runtime", name+" is not supported any more; it becomes "+made, "try the code and its dependencies with it")
	}
}

func (u *up) scale() {
	old := oldScale{u.old.Spec.MinReplicas, u.old.Spec.MaxReplicas}
	made, keep := carry(old, u.kept.Scale, oldScale.there, newScale.back)
	made = made.keepAwake(u.kept.Scale)
	u.made.Spec.Replicas, u.made.Spec.ScaleConfig, u.keep.Scale = made.Replicas, made.ScaleConfig, keep
	if (old.Min == nil) != (old.Max == nil) && made.isBounded() {
		u.report.changed("spec.minReplicas, spec.maxReplicas", "v1alpha2 needs both", fmt.Sprintf(
			"they become %d and %d: see that this is meant", *made.ScaleConfig.MinReplicas, *made.ScaleConfig.MaxReplicas))
	}
}

func (u *up) resources() {
	spec := &u.old.Spec
	old := oldResources{
		pull(u.made.Labels, v1alpha1.LabelFunctionPreset), pull(u.made.Labels, v1alpha1.LabelBuildPreset), spec.Resources, spec.BuildResources,
	}
	made, keep := carry(old, u.kept.Resources, oldResources.there, newResources.back)
	u.made.Spec.ResourceConfiguration, u.keep.Resources = made.Configuration, keep
	u.made.Labels = give(give(u.made.Labels, v1alpha1.LabelFunctionPreset, made.FunctionLabel), v1alpha1.LabelBuildPreset, made.BuildLabel)
	const remedy = "take the label away, or the resources"
	if old.FunctionPreset != nil && !isEmpty(old.Function) {
		u.report.changed(label(v1alpha1.LabelFunctionPreset), "v1alpha2 has a profile or resources, and spec.resources were in force", remedy)
	}
	if old.BuildPreset != nil && !isEmpty(old.Build) {
		u.report.changed(label(v1alpha1.LabelBuildPreset), "v1alpha2 has a profile or resources, and spec.buildResources were in force", remedy)
	}
}

func (u *up) secretMounts() {
	text := pull(u.made.Annotations, v1alpha1.AnnotationSecretMounts)
	if text != nil {
		var mounts []v1alpha2.SecretMount
		if err := json.Unmarshal([]byte(*text), &mounts); err != nil {
			u.report.problem(annotation(v1alpha1.AnnotationSecretMounts), "it is no list of mounts in JSON: "+err.Error(),
				`write it as [{"secretName":"a","mountPath":"/b"}]`)
		}
	}
	made, keep := carry(text, u.kept.SecretMounts, thereSecretMounts, newSecretMounts.back)
	u.made.Spec.SecretMounts = made.Mounts
	u.made.Annotations = give(u.made.Annotations, v1alpha1.AnnotationSecretMounts, made.Annotation)
	if keep != nil {
		u.keep.SecretMounts = *keep
	}
}

// rest converts the fields that both versions have, or only v1alpha2.
func (u *up) rest() {
	spec, old := &u.made.Spec, &u.old.Spec
	spec.RuntimeImageOverride, spec.Env, spec.Labels = old.RuntimeImageOverride, old.Env, old.Labels
	if only := u.kept.Only; only != nil {
		spec.PodSecurityContext, spec.ContainerSecurityContext = only.PodSecurityContext, only.ContainerSecurityContext
		spec.Annotations, spec.Template = only.Annotations, only.Template
	}
}

// remember stores the fields of v1alpha1 for the conversion back.
func (u *up) remember() {
	annotations, err := put(u.made.Annotations, v1alpha1.AnnotationOldFields, u.keep)
	if err == nil && len(annotations[v1alpha1.AnnotationOldFields]) > maxKept {
		err = fmt.Errorf("more than %d KiB would have to be kept of it", maxKept>>10)
	}
	if err != nil {
		u.report.problem("spec", err.Error(), "take away what v1alpha2 does not have, such as spec.deps of code in Git")
	}
	u.made.Annotations = annotations
}

func annotation(key string) string { return "metadata.annotations[" + key + "]" }

func label(key string) string { return "metadata.labels[" + key + "]" }

func quote(text string) string {
	const most = 64
	return fmt.Sprintf("%.*q", most, text)
}

// statusUp returns the stored status of v1alpha2, or else the converted status of v1alpha1.
func statusUp(old *v1alpha1.FunctionStatus) v1alpha2.FunctionStatus {
	if old.V1alpha2 != nil {
		return *old.V1alpha2.DeepCopy()
	}
	made := v1alpha2.FunctionStatus{
		Runtime: v1alpha2.Runtime(old.Runtime), Commit: old.Commit, BaseDir: old.BaseDir, Reference: old.Reference,
	}
	for _, condition := range old.Conditions {
		known := func(c metav1.Condition) bool { return c.Type == condition.Type }
		if condition.Type == "" || condition.Reason == "" || slices.ContainsFunc(made.Conditions, known) {
			continue // v1alpha2 requires both, without duplicates
		}
		made.Conditions = append(made.Conditions, metav1.Condition{
			Type: condition.Type, Status: metav1.ConditionStatus(condition.Status), LastTransitionTime: condition.LastTransitionTime,
			Reason: condition.Reason, Message: condition.Message,
		})
	}
	return made
}

// down is the state of one conversion to v1alpha1.
type down struct {
	fn   *v1alpha2.Function
	made *v1alpha1.Function
	kept oldFields
	keep newFields
}

// Down converts a Function of v1alpha2 to v1alpha1.
func Down(fn *v1alpha2.Function) *v1alpha1.Function {
	d := &down{fn: fn.DeepCopy(), made: &v1alpha1.Function{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Function"},
	}}
	repository := d.metadata()
	d.runtime()
	d.scale()
	d.resources()
	d.source(repository)
	d.secretMounts()
	d.rest()
	d.made.Status = statusDown(d.fn, repository)
	if annotations, err := put(d.made.Annotations, v1alpha1.AnnotationNewFields, d.keep); err == nil { // cannot fail: all types are plain
		d.made.Annotations = annotations
	}
	return d.made
}

// metadata restores the stored fields. It ignores an annotation that is not readable, which another client may have
// written.
func (d *down) metadata() (repository *string) {
	d.made.ObjectMeta = d.fn.ObjectMeta
	d.made.Labels, d.made.Annotations = maps.Clone(d.fn.Labels), maps.Clone(d.fn.Annotations)
	delete(d.made.Annotations, v1alpha1.AnnotationNewFields)
	if kept, err := take[oldFields](d.made.Annotations, v1alpha1.AnnotationOldFields); err == nil {
		d.kept = kept
	}
	return pull(d.made.Annotations, v1alpha1.AnnotationGitRepository)
}

func (d *down) runtime() {
	d.made.Spec.Runtime, d.keep.Runtime = carry(d.fn.Spec.Runtime, d.kept.Runtime, runtimeDown, runtimeUp)
}

func (d *down) scale() {
	group := newScale{d.fn.Spec.Replicas, d.fn.Spec.ScaleConfig}
	there := func(old oldScale) newScale { // autoscalers change replicas continuously
		made := old.there()
		if made.ScaleConfig != nil {
			made.Replicas = group.Replicas
		}
		return made
	}
	old, _ := carry(group, d.kept.Scale, newScale.back, there)
	d.made.Spec.MinReplicas, d.made.Spec.MaxReplicas = old.Min, old.Max
	if !same(old.there(), group) {
		d.keep.Scale = &group
	}
}

func (d *down) resources() {
	group := newResources{
		pull(d.made.Labels, v1alpha1.LabelFunctionPreset), pull(d.made.Labels, v1alpha1.LabelBuildPreset), d.fn.Spec.ResourceConfiguration,
	}
	old, keep := carry(group, d.kept.Resources, newResources.back, oldResources.there)
	d.made.Spec.Resources, d.made.Spec.BuildResources, d.keep.Resources = old.Function, old.Build, keep
	d.made.Labels = give(give(d.made.Labels, v1alpha1.LabelFunctionPreset, old.FunctionPreset), v1alpha1.LabelBuildPreset, old.BuildPreset)
}

func (d *down) secretMounts() {
	group := newSecretMounts{pull(d.made.Annotations, v1alpha1.AnnotationSecretMounts), d.fn.Spec.SecretMounts}
	var kept **string
	if d.kept.SecretMounts != nil {
		kept = &d.kept.SecretMounts
	}
	old, keep := carry(group, kept, newSecretMounts.back, thereSecretMounts)
	d.made.Annotations = give(d.made.Annotations, v1alpha1.AnnotationSecretMounts, old)
	d.keep.SecretMounts = keep
}

func (d *down) rest() {
	spec, fn := &d.made.Spec, &d.fn.Spec
	spec.RuntimeImageOverride, spec.Env, spec.Labels = fn.RuntimeImageOverride, fn.Env, fn.Labels
	only := newOnly{fn.PodSecurityContext, fn.ContainerSecurityContext, fn.Annotations, fn.Template}
	if !same(only, newOnly{}) {
		d.keep.Only = &only
	}
}

// statusDown sets the fields that v1alpha1 has, and stores the whole status besides.
func statusDown(fn *v1alpha2.Function, repository *string) v1alpha1.FunctionStatus {
	status := &fn.Status
	if same(*status, v1alpha2.FunctionStatus{}) {
		return v1alpha1.FunctionStatus{}
	}
	made := v1alpha1.FunctionStatus{
		Repository: v1alpha1.Repository{BaseDir: status.BaseDir, Reference: status.Reference}, Commit: status.Commit,
		Runtime: string(status.Runtime), RuntimeImageOverride: fn.Spec.RuntimeImageOverride, V1alpha2: status,
	}
	if repository != nil {
		made.Source = *repository
	}
	if git := status.GitRepository; git != nil {
		made.Repository, made.Commit = v1alpha1.Repository{BaseDir: git.BaseDir, Reference: git.Reference}, git.Commit
	}
	for _, condition := range status.Conditions {
		made.Conditions = append(made.Conditions, v1alpha1.Condition{
			Type: condition.Type, Status: corev1.ConditionStatus(condition.Status), LastTransitionTime: condition.LastTransitionTime,
			Reason: condition.Reason, Message: condition.Message,
		})
	}
	return made
}
