package conversion

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Repository is what a GitRepository says.
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
