package conversion

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// maxKept bounds what is kept in an annotation on the way up. The API server allows 256 KiB for all of an object.
const maxKept = 64 << 10

// oldFields is what a Function of v1alpha2 keeps of v1alpha1, group by group.
type oldFields struct {
	Runtime      *string       `json:"runtime,omitempty"`
	Scale        *oldScale     `json:"scale,omitempty"`
	Resources    *oldResources `json:"resources,omitempty"`
	Source       *oldSource    `json:"source,omitempty"`
	SecretMounts *string       `json:"secretMounts,omitempty"`
}

// newFields is what a Function of v1alpha1 keeps of v1alpha2, group by group.
type newFields struct {
	Runtime      *v1alpha2.Runtime `json:"runtime,omitempty"`
	Scale        *newScale         `json:"scale,omitempty"`
	Resources    *newResources     `json:"resources,omitempty"`
	Source       *newSource        `json:"source,omitempty"`
	SecretMounts *newSecretMounts  `json:"secretMounts,omitempty"`
	Only         *newOnly          `json:"only,omitempty"`
}

// carry writes a group of fields in the other version. What was kept of the other version is taken as long as it still stands for the
// same. What the written one alone would not give back has to be kept, and is returned.
func carry[A, B any](from A, kept *B, there func(A) B, back func(B) A) (written B, keep *A) {
	written = there(from)
	if kept != nil && same(back(*kept), from) {
		written = *kept
	}
	if !same(back(written), from) {
		keep = &from
	}
	return written, keep
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// take reads an annotation and removes it.
func take[T any](annotations map[string]string, key string) (T, error) {
	var kept T
	text, found := annotations[key]
	delete(annotations, key)
	if !found {
		return kept, nil
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		var none T
		return none, fmt.Errorf("decode the annotation %s: %w", key, err)
	}
	return kept, nil
}

// put writes an annotation, unless there is nothing to keep.
func put[T any](annotations map[string]string, key string, keep T) (map[string]string, error) {
	var nothing T
	if same(keep, nothing) {
		return annotations, nil
	}
	text, err := json.Marshal(keep)
	if err != nil {
		return annotations, fmt.Errorf("encode the annotation %s: %w", key, err)
	}
	return set(annotations, key, string(text)), nil
}

func set(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// pull is the value of a key, which is removed.
func pull(values map[string]string, key string) *string {
	value, found := values[key]
	delete(values, key)
	if !found {
		return nil
	}
	return &value
}

func give(values map[string]string, key string, value *string) map[string]string {
	if value == nil {
		return values
	}
	return set(values, key, *value)
}

// Forget takes off a Function what only a way back to v1alpha1 would need.
func Forget(fn *v1alpha2.Function) {
	delete(fn.Annotations, v1alpha1.AnnotationOldFields)
	delete(fn.Annotations, v1alpha1.AnnotationGitRepository)
	if len(fn.Annotations) == 0 {
		fn.Annotations = nil
	}
}

// oldScale is how many pods there are in v1alpha1.
type oldScale struct {
	Min *int32 `json:"min,omitempty"`
	Max *int32 `json:"max,omitempty"`
}

type newScale struct {
	Replicas    *int32                `json:"replicas,omitempty"`
	ScaleConfig *v1alpha2.ScaleConfig `json:"scaleConfig,omitempty"`
}

func (o oldScale) there() newScale {
	if o.Min == nil && o.Max == nil {
		return newScale{Replicas: new(int32(1))}
	}
	low := o.Min
	if low == nil {
		low = new(int32(1))
	}
	high := o.Max
	if high == nil {
		high = new(max(*low, 1))
	}
	return newScale{Replicas: new(*low), ScaleConfig: &v1alpha2.ScaleConfig{MinReplicas: low, MaxReplicas: high}}
}

func (n newScale) back() oldScale {
	switch {
	case n.ScaleConfig != nil:
		return oldScale{n.ScaleConfig.MinReplicas, n.ScaleConfig.MaxReplicas}
	case n.Replicas == nil || *n.Replicas == 1:
		return oldScale{}
	default:
		return oldScale{n.Replicas, new(max(*n.Replicas, 1))}
	}
}

// keepAwake has as many pods as before, where the new bounds allow: what a change of the bounds means is for the autoscaler to find out.
func (n newScale) keepAwake(before *newScale) newScale {
	if before == nil || before.ScaleConfig == nil || before.Replicas == nil || !n.isBounded() || same(n, *before) {
		return n
	}
	n.Replicas = new(max(*n.ScaleConfig.MinReplicas, min(*before.Replicas, *n.ScaleConfig.MaxReplicas)))
	return n
}

func (n newScale) isBounded() bool {
	return n.ScaleConfig != nil && n.ScaleConfig.MinReplicas != nil && n.ScaleConfig.MaxReplicas != nil
}

// oldResources are those of pods and builds; profiles are labels.
type oldResources struct {
	FunctionPreset *string                      `json:"functionPreset,omitempty"`
	BuildPreset    *string                      `json:"buildPreset,omitempty"`
	Function       *corev1.ResourceRequirements `json:"function,omitempty"`
	Build          *corev1.ResourceRequirements `json:"build,omitempty"`
}

// newResources have the labels, too: in v1alpha2 they mean nothing, and may be there.
type newResources struct {
	FunctionLabel *string                         `json:"functionLabel,omitempty"`
	BuildLabel    *string                         `json:"buildLabel,omitempty"`
	Configuration *v1alpha2.ResourceConfiguration `json:"configuration,omitempty"`
}

func (o oldResources) there() newResources {
	made := &v1alpha2.ResourceConfiguration{
		Function: requirements(o.FunctionPreset, o.Function),
		Build:    requirements(o.BuildPreset, o.Build),
	}
	if made.Function == nil && made.Build == nil {
		return newResources{}
	}
	return newResources{Configuration: made}
}

// requirements are the resources where both are there: they were in force, and the preset only filled in what was missing.
func requirements(preset *string, resources *corev1.ResourceRequirements) *v1alpha2.ResourceRequirements {
	switch {
	case !isEmpty(resources):
		return &v1alpha2.ResourceRequirements{Resources: resources}
	case preset != nil && *preset != "":
		return &v1alpha2.ResourceRequirements{Profile: *preset}
	default:
		return nil
	}
}

func isEmpty(resources *corev1.ResourceRequirements) bool {
	return resources == nil || len(resources.Limits)+len(resources.Requests)+len(resources.Claims) == 0
}

func (n newResources) back() oldResources {
	if n.Configuration == nil {
		return oldResources{}
	}
	var old oldResources
	old.FunctionPreset, old.Function = backRequirements(n.Configuration.Function)
	old.BuildPreset, old.Build = backRequirements(n.Configuration.Build)
	return old
}

func backRequirements(of *v1alpha2.ResourceRequirements) (preset *string, resources *corev1.ResourceRequirements) {
	if of == nil {
		return nil, nil
	}
	if of.Profile != "" {
		preset = new(of.Profile)
	}
	return preset, of.Resources
}

// newSecretMounts are fields in v1alpha2; the annotation that they were may be there, too.
type newSecretMounts struct {
	Annotation *string                `json:"annotation,omitempty"`
	Mounts     []v1alpha2.SecretMount `json:"mounts,omitempty"`
}

// thereSecretMounts takes an annotation that cannot be read for none; the caller has judged it.
func thereSecretMounts(annotation *string) newSecretMounts {
	var made newSecretMounts
	if annotation != nil && json.Unmarshal([]byte(*annotation), &made.Mounts) != nil {
		made.Mounts = nil
	}
	return made
}

func (n newSecretMounts) back() *string {
	if len(n.Mounts) == 0 {
		return nil
	}
	text, err := json.Marshal(n.Mounts)
	if err != nil {
		return nil
	}
	return new(string(text))
}

// newOnly are the fields that v1alpha1 does not have at all.
type newOnly struct {
	PodSecurityContext       *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	ContainerSecurityContext *corev1.SecurityContext    `json:"containerSecurityContext,omitempty"`
	Annotations              map[string]string          `json:"annotations,omitempty"`
	Template                 *v1alpha2.Template         `json:"template,omitempty"`
}

// Repository is the spec of a GitRepository.
type Repository = v1alpha1.GitRepositorySpec

// oldSource is where the code comes from in v1alpha1, without the code of the manifest.
type oldSource struct {
	Type      string `json:"type,omitempty"`
	Name      string `json:"name,omitempty"`
	Deps      string `json:"deps,omitempty"`
	BaseDir   string `json:"baseDir,omitempty"`
	Reference string `json:"reference,omitempty"`
}

// newSource is the same in v1alpha2: without Git it is empty.
type newSource struct {
	Name *string                       `json:"name,omitempty"` // of the annotation
	Git  *v1alpha2.GitRepositorySource `json:"git,omitempty"`
}

func (n newSource) back() oldSource {
	if n.Git == nil {
		return oldSource{}
	}
	old := oldSource{Type: v1alpha1.SourceTypeGit, BaseDir: n.Git.BaseDir, Reference: n.Git.Reference}
	if n.Name != nil {
		old.Name = *n.Name
	}
	return old
}

// there has no URL: that is in the GitRepository.
func (o oldSource) there() newSource {
	if o.Type != v1alpha1.SourceTypeGit {
		return newSource{}
	}
	made := newSource{Git: &v1alpha2.GitRepositorySource{BaseDir: o.BaseDir, Reference: o.Reference}}
	if o.Name != "" {
		made.Name = &o.Name
	}
	return made
}

// RepositoryOf is the GitRepository that a Function needs to be converted.
func RepositoryOf(old *v1alpha1.Function) (name types.NamespacedName, needed bool) {
	needed = old.Spec.Type == v1alpha1.SourceTypeGit && old.Spec.Source != ""
	return types.NamespacedName{Namespace: old.Namespace, Name: old.Spec.Source}, needed
}

// source writes where the code comes from. The GitRepository rules; without it what the Function kept of it.
func (u *up) source() {
	old := &u.old.Spec
	group := oldSource{Type: old.Type, BaseDir: old.BaseDir, Reference: old.Reference}
	switch old.Type {
	case v1alpha1.SourceTypeGit:
		group.Name, group.Deps = old.Source, old.Deps
		if old.Deps != "" {
			u.report.changed("spec.deps", "the dependencies of code in Git are read from its repository", "see that they are there")
		}
	case "":
		u.made.Spec.Source.Inline = &v1alpha2.InlineSource{Source: old.Source, Dependencies: old.Deps}
		if old.BaseDir != "" || old.Reference != "" {
			u.report.changed("spec.baseDir", "folder and reference mean nothing without spec.type: git", "take them away, or set the type")
		}
	default:
		u.report.problem("spec.type", "there is no type "+quote(old.Type), "write git, or leave it away for code in the manifest")
		return
	}
	made, keep := carry(group, u.kept.Source, oldSource.there, newSource.back)
	u.keep.Source = keep
	u.made.Annotations = give(u.made.Annotations, v1alpha1.AnnotationGitRepository, made.Name)
	u.made.Spec.Source.GitRepository = made.Git
	if old.Type == v1alpha1.SourceTypeGit {
		u.resolve(made.Git)
	}
}

func (u *up) resolve(git *v1alpha2.GitRepositorySource) {
	name, needed := RepositoryOf(u.old)
	repository, found := u.repositories[name]
	switch {
	case needed && found:
		git.URL, git.Auth = repository.URL, nil
		if auth := repository.Auth; auth != nil {
			git.Auth = &v1alpha2.RepositoryAuth{Type: auth.Type, SecretName: auth.SecretName}
		}
	case git.URL != "": // kept
	case needed && u.repositories == nil: // for who knows them to write
	case !needed:
		u.report.problem("spec.source", "it names no GitRepository", "write the name of one")
	default:
		where := "GitRepository " + name.Name
		if name.Namespace != "" {
			where = "GitRepository " + name.String()
		}
		u.report.problem("spec.source", where+" is missing, which has the URL", "add its manifest, before the Function's, "+
			"or write the Function as v1alpha2 with spec.source.gitRepository")
	}
}

// source writes where the code comes from in v1alpha1. URL and login are kept, in case that the GitRepository is gone.
func (d *down) source(repository *string) {
	fn := &d.fn.Spec.Source
	group := newSource{Name: repository, Git: fn.GitRepository}
	there := func(old oldSource) newSource {
		made := old.there()
		if made.Git != nil && fn.GitRepository != nil {
			made.Git.URL, made.Git.Auth = fn.GitRepository.URL, fn.GitRepository.Auth
		}
		return made
	}
	old, keep := carry(group, d.kept.Source, newSource.back, there)
	d.keep.Source = keep
	if group.Git != nil {
		d.keep.Source = &group
	}
	d.made.Spec.Type, d.made.Spec.BaseDir, d.made.Spec.Reference = old.Type, old.BaseDir, old.Reference
	if fn.Inline != nil {
		d.made.Spec.Source, d.made.Spec.Deps = fn.Inline.Source, fn.Inline.Dependencies
		return
	}
	d.made.Spec.Source, d.made.Spec.Deps = old.Name, old.Deps
}
