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

// maxKept bounds the size of an annotation that holds fields on the way up. The API server allows 256 KiB for all
// annotations of an object.
const maxKept = 64 << 10

// oldFields holds the fields of v1alpha1 that a Function of v1alpha2 stores, group by group.
type oldFields struct {
	Runtime      *string       `json:"runtime,omitempty"`
	Scale        *oldScale     `json:"scale,omitempty"`
	Resources    *oldResources `json:"resources,omitempty"`
	Source       *oldSource    `json:"source,omitempty"`
	SecretMounts *string       `json:"secretMounts,omitempty"`
}

// newFields holds the fields of v1alpha2 that a Function of v1alpha1 stores, group by group.
type newFields struct {
	Runtime      *v1alpha2.Runtime `json:"runtime,omitempty"`
	Scale        *newScale         `json:"scale,omitempty"`
	Resources    *newResources     `json:"resources,omitempty"`
	Source       *newSource        `json:"source,omitempty"`
	SecretMounts *newSecretMounts  `json:"secretMounts,omitempty"`
	Only         *newOnly          `json:"only,omitempty"`
}

// carry converts a group of fields to the other version. It reuses the stored fields of the other version while they
// are equivalent to the group. It returns as keep the group if converting back would not restore it.
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

// take reads and removes an annotation.
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

// put writes an annotation, unless keep is empty.
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

// pull removes a key and returns its value.
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

// Forget removes from a Function the data that only a conversion back to v1alpha1 would need.
func Forget(fn *v1alpha2.Function) {
	delete(fn.Annotations, v1alpha1.AnnotationOldFields)
	delete(fn.Annotations, v1alpha1.AnnotationGitRepository)
	if len(fn.Annotations) == 0 {
		fn.Annotations = nil
	}
}

// oldScale holds the bounds of replicas in v1alpha1.
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

// keepAwake keeps the number of pods as far as the new bounds allow: the autoscaler applies a change of the bounds.
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

// oldResources are the resources of pods and builds; profiles are labels.
type oldResources struct {
	FunctionPreset *string                      `json:"functionPreset,omitempty"`
	BuildPreset    *string                      `json:"buildPreset,omitempty"`
	Function       *corev1.ResourceRequirements `json:"function,omitempty"`
	Build          *corev1.ResourceRequirements `json:"build,omitempty"`
}

// newResources include the labels, which have no meaning in v1alpha2 but may be present.
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

// requirements returns the resources where both are present: they were in force, and the preset only filled in missing
// fields.
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

// newSecretMounts are fields in v1alpha2; the annotation of v1alpha1 may be present, too.
type newSecretMounts struct {
	Annotation *string                `json:"annotation,omitempty"`
	Mounts     []v1alpha2.SecretMount `json:"mounts,omitempty"`
}

// thereSecretMounts treats an unreadable annotation as missing; the caller reports it.
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

// newOnly are the fields that v1alpha1 lacks.
type newOnly struct {
	PodSecurityContext       *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	ContainerSecurityContext *corev1.SecurityContext    `json:"containerSecurityContext,omitempty"`
	Annotations              map[string]string          `json:"annotations,omitempty"`
	Template                 *v1alpha2.Template         `json:"template,omitempty"`
}

// Repository is the spec of a GitRepository.
type Repository = v1alpha1.GitRepositorySpec

// oldSource is the source of the code in v1alpha1, except inline code and manifest.
type oldSource struct {
	Type      string `json:"type,omitempty"`
	Name      string `json:"name,omitempty"`
	Deps      string `json:"deps,omitempty"`
	BaseDir   string `json:"baseDir,omitempty"`
	Reference string `json:"reference,omitempty"`
}

// newSource is the same in v1alpha2. It is empty without Git.
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

// there leaves the URL empty, which is in the GitRepository.
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

// RepositoryOf returns the name of the GitRepository that the conversion of a Function needs.
func RepositoryOf(old *v1alpha1.Function) (name types.NamespacedName, needed bool) {
	needed = old.Spec.Type == v1alpha1.SourceTypeGit && old.Spec.Source != ""
	return types.NamespacedName{Namespace: old.Namespace, Name: old.Spec.Source}, needed
}

// source writes the source of the code. The GitRepository takes precedence over the values that the Function stores.
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
	case git.URL != "": // restored from the Function
	case needed && u.repositories == nil: // filled in later by a caller that knows the repositories
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

// source writes the source of the code in v1alpha1. It keeps URL and credentials in case the GitRepository no longer
// exists.
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
