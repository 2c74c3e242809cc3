package conversion

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// down is one conversion to v1alpha1.
type down struct {
	fn   *v1alpha2.Function
	made *v1alpha1.Function
	kept oldFields
	keep newFields
}

// Down writes a Function of v1alpha2 as v1alpha1.
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
	if annotations, err := put(d.made.Annotations, v1alpha1.AnnotationNewFields, d.keep); err == nil { // it is of plain types
		d.made.Annotations = annotations
	}
	return d.made
}

// metadata takes what was kept. An annotation that somebody else has written and that cannot be read counts for none.
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
	there := func(old oldScale) newScale { // an autoscaler changes replicas all the time
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

// statusDown shows what v1alpha1 has a field for, and has all of it besides.
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
