package manifest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/sourcefiles"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Files are the files of a Function's source.
type Files struct {
	// Dir is the folder that they are in, as the user wrote it.
	Dir string
	// ConfigMap reports that they are those of a ConfigMap among the files, as a cluster would have them.
	ConfigMap bool
	// Repository is the working tree of the Function's repository that has them; empty if they are of no repository.
	Repository string
	// Content is their content.
	Content sourcefiles.Files
}

// addFiles adds the files of Functions whose source they are. A Function without them is left out.
func (d *decoder) addFiles() {
	var kept []Function
	for i, fn := range d.set.Functions {
		object := &d.functions[i]
		files, err := d.filesOf(&fn)
		if err != nil {
			d.note(object.problem("spec.annotations["+serverlessv1alpha2.AnnotationFiles+"]", err.Error(), ""))
			continue
		}
		if name := files.outdated(); name != "" {
			problem := object.problem("spec.annotations["+serverlessv1alpha2.AnnotationFiles+"]",
				fmt.Sprintf("%s is another one in the ConfigMap, whose files are taken, than in %s", name, files.Dir), "write the ConfigMap again: rouse files")
			problem.Warning = true
			d.note(problem)
		}
		if files == nil && fn.Spec.Source.GitRepository != nil {
			if files, err = workingTree(&fn); err != nil {
				problem := object.problem("spec.source.gitRepository", "the working tree is not used: "+err.Error(), "")
				problem.Warning = true
				d.note(problem)
			}
		}
		if fn.Files = files; files != nil {
			if l, err := languages.Of(fn.Spec.Runtime); err == nil && files.Content.HasHandler(l) {
				fn.Source = Position{}
			}
		}
		kept = append(kept, fn)
	}
	d.set.Functions = kept
}

// filesOf returns the files that the annotation names: those of a ConfigMap that is among the files, and else those
// beside the manifest, which `rouse files` makes that ConfigMap of.
func (d *decoder) filesOf(fn *Function) (*Files, error) {
	name := fn.Spec.Annotations[serverlessv1alpha2.AnnotationFiles]
	if name == "" {
		return nil, nil
	}
	dir := filepath.Dir(fn.At.File)
	for _, config := range d.set.ConfigMaps {
		if config.Name != name || config.Namespace != fn.Namespace {
			continue
		}
		content, err := sourcefiles.FromConfigMap(config.Data, config.BinaryData)
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s: %w", fn.Namespace, name, err)
		}
		return &Files{Dir: dir, ConfigMap: true, Content: content}, nil
	}
	content, err := sourcefiles.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, err)
	}
	return &Files{Dir: dir, Content: content}, nil
}

// outdated returns a file of a ConfigMap that has another content in the folder; empty if there is none.
func (f *Files) outdated() string {
	if f == nil || !f.ConfigMap {
		return ""
	}
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	for _, name := range f.Content.Names() {
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if info.Size() != int64(len(f.Content[name])) {
			return name
		}
		if content, err := root.ReadFile(name); err == nil && !bytes.Equal(content, f.Content[name]) {
			return name
		}
	}
	return ""
}
