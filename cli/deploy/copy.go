package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/bundle"
	"github.com/rouse-run/rouse/internal/sourcefiles"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Copied describes what a development copy changes in a folder.
type Copied struct {
	// Packed lists the Functions whose files are in their inline source.
	Packed []Ref
	// Built says of each other Function why a change of its source takes a build.
	Built []string
}

// Copy returns the folder as a copy for development. The files of each Function are packed into its inline source, which pods get with their
// environment, so that no change of them takes a build. What cannot be packed stays as a deploy has it.
func (f Folder) Copy(ctx context.Context) (Folder, Copied, error) {
	var told Copied
	copied := f
	copied.Objects = slices.Clone(f.Objects)
	packed := map[string]bool{} // the ConfigMaps whose files need not be there
	for i, object := range copied.Objects {
		if object.GetKind() != kindFunction {
			continue
		}
		fn := &v1alpha2.Function{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object.Object, fn); err != nil {
			return Folder{}, told, fmt.Errorf("read %s: %w", object.Ref(), err)
		}
		source, reason, err := f.pack(ctx, fn)
		if err != nil {
			return Folder{}, told, exit.Errorf(exit.Usage, "%s: %s: %w", object.At, object.Ref(), err)
		}
		switch {
		case reason != "":
			told.Built = append(told.Built, fmt.Sprintf("%s: a change of it takes a build: %s", object.Ref(), reason))
		case source != nil:
			if copied.Objects[i], err = object.with(fn, *source); err != nil {
				return Folder{}, told, err
			}
			packed[fn.Namespace+"/"+fn.Spec.Annotations[v1alpha2.AnnotationFiles]] = true
			told.Packed = append(told.Packed, object.Ref())
		}
	}
	needed := slices.Clone(copied.Objects)
	copied.Objects = slices.DeleteFunc(copied.Objects, func(o Object) bool {
		return o.GetKind() == kindConfigMap && packed[o.GetNamespace()+"/"+o.GetName()] && !hasFilesIn(needed, o)
	})
	return copied, told, nil
}

// hasFilesIn reports whether a Function has its files in a ConfigMap.
func hasFilesIn(objects []Object, config Object) bool {
	return slices.ContainsFunc(objects, func(o Object) bool {
		name, _, _ := unstructured.NestedString(o.Object.Object, "spec", "annotations", v1alpha2.AnnotationFiles)
		return o.GetKind() == kindFunction && o.GetNamespace() == config.GetNamespace() && name == config.GetName()
	})
}

// pack returns the inline source with all files, or why there is none; neither if the source is inline already.
func (f Folder) pack(ctx context.Context, fn *v1alpha2.Function) (source *v1alpha2.InlineSource, reason string, err error) {
	l, err := languages.Of(fn.Spec.Runtime)
	if err != nil {
		return nil, "", err
	}
	switch name := fn.Spec.Annotations[v1alpha2.AnnotationFiles]; {
	case fn.Spec.Source.GitRepository != nil:
		return nil, "its source is a Git repository", nil
	case l.Compiled != nil:
		return nil, l.Title + " is compiled", nil
	case name == "":
		return nil, "", nil
	default:
		files, err := f.filesOf(fn.Namespace, name)
		if err != nil || files == nil {
			return nil, fmt.Sprintf("ConfigMap %s is not in the folder", name), err
		}
		return packed(ctx, fn.Spec.Runtime, l, files.Over(l, fn.Spec.Source.Inline.Source, fn.Spec.Source.Inline.Dependencies))
	}
}

// filesOf returns the files in a ConfigMap of the folder.
func (f Folder) filesOf(namespace, name string) (sourcefiles.Files, error) {
	for _, object := range f.Objects {
		if object.GetKind() != kindConfigMap || object.GetNamespace() != namespace || object.GetName() != name {
			continue
		}
		config := &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object.Object, config); err != nil {
			return nil, fmt.Errorf("read %s: %w", object.Ref(), err)
		}
		return sourcefiles.FromConfigMap(config.Data, config.BinaryData)
	}
	return nil, nil
}

// packed returns files as one source, or why that is not possible.
func packed(ctx context.Context, name v1alpha2.Runtime, l *language.Language, files sourcefiles.Files) (*v1alpha2.InlineSource, string, error) {
	source := &v1alpha2.InlineSource{}
	var reason string
	var err error
	if source.Dependencies, reason = dependenciesOf(name, l, files); reason != "" {
		return nil, reason, nil
	}
	switch {
	case l.Bundled != nil:
		source.Source, reason, err = bundled(ctx, l, files)
	case l.Packed != nil:
		text, binary := map[string]string{}, map[string][]byte{}
		for name, content := range files {
			if utf8.Valid(content) {
				text[name] = string(content)
			} else {
				binary[name] = content
			}
		}
		source.Source = l.Packed(l.Handler, text, binary)
	default:
		reason = "files of " + l.Title + " cannot be packed"
	}
	if err != nil || reason != "" {
		return nil, reason, err
	}
	encoded, err := workload.EncodeSource(source.Source)
	if err == nil && len(encoded) > workload.MaxSource {
		return nil, fmt.Sprintf("its files are larger than the %d KiB that fit into the environment of a pod", workload.MaxSource>>10), nil
	}
	return source, "", err
}

// dependenciesOf returns what an inline source says of dependencies, or why it cannot.
func dependenciesOf(name v1alpha2.Runtime, l *language.Language, files sourcefiles.Files) (manifest, reason string) {
	manifest = string(files[l.Packages.Manifest])
	if l.Bundled != nil && manifest != "" {
		manifest = l.Bundled.Manifest(manifest)
	}
	if !workload.HasDependencies(name, manifest) {
		return "", ""
	}
	for _, lock := range l.Packages.Locks {
		if files[lock] != nil {
			return "", lock + " decides on versions, which an inline source has no place for"
		}
	}
	if l.Packages.Outward != nil && l.Packages.Outward.MatchString(manifest) {
		return "", l.Packages.Manifest + " depends on other files"
	}
	return manifest, ""
}

// bundled returns files as one script, or why that is not possible.
func bundled(ctx context.Context, l *language.Language, files sourcefiles.Files) (script, reason string, err error) {
	dir, err := os.MkdirTemp("", "rouse-copy-")
	if err != nil {
		return "", "", fmt.Errorf("make a folder for the compiler: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := files.Write(dir); err != nil {
		return "", "", err
	}
	script, left, err := bundle.Single(ctx, l, dir)
	if err != nil {
		return "", "", err
	}
	left = slices.DeleteFunc(left, l.Bundled.Aside)
	switch {
	case script == "":
		return "", "only a module can have its top-level await or import.meta", nil
	case len(left) > 0:
		return "", left[0] + " may be read when it runs; leave it out in .rouseignore if it is not", nil
	}
	return script, "", nil
}

// with returns the object of a Function with another source.
func (o Object) with(fn *v1alpha2.Function, source v1alpha2.InlineSource) (Object, error) {
	changed := o.DeepCopy()
	inline := map[string]any{"source": source.Source}
	if source.Dependencies != "" {
		inline["dependencies"] = source.Dependencies
	}
	if err := unstructured.SetNestedMap(changed.Object, inline, "spec", "source", "inline"); err != nil {
		return Object{}, fmt.Errorf("write %s: %w", o.Ref(), err)
	}
	for _, name := range []string{v1alpha2.AnnotationFiles, v1alpha2.AnnotationFilesDigest} {
		unstructured.RemoveNestedField(changed.Object, "spec", "annotations", name)
	}
	if len(fn.Spec.Annotations) <= 2 {
		if left, _, _ := unstructured.NestedMap(changed.Object, "spec", "annotations"); len(left) == 0 {
			unstructured.RemoveNestedField(changed.Object, "spec", "annotations")
		}
	}
	o.Unstructured = changed
	return o, nil
}
