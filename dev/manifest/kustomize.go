package manifest

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/yaml"
)

// originAnnotation is the annotation in which kustomize records the file of a resource.
const originAnnotation = "config.kubernetes.io/origin"

// build is the output of kustomize for a folder.
type build struct {
	folder   string
	objects  []object
	problems []Problem
	files    map[string][]byte
}

// buildAll builds each folder that no other one includes: a base is read through its overlays, as with kubectl.
func buildAll(folders []string) []build {
	builds := make([]build, len(folders))
	for i, folder := range folders {
		builds[i] = kustomize(folder)
	}
	var kept []build
	for i, one := range builds {
		if !isBase(builds, i) {
			kept = append(kept, one)
		}
	}
	return kept
}

func isBase(builds []build, i int) bool {
	for j, other := range builds {
		if _, ok := other.files[kustomizationIn(builds[i].folder)]; ok && i != j {
			return true
		}
	}
	return false
}

// kustomizationIn returns the folder's kustomization file, or an empty string.
func kustomizationIn(folder string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		path := filepath.Join(folder, name)
		if filesys.MakeFsOnDisk().Exists(path) {
			return path
		}
	}
	return ""
}

func kustomize(folder string) build {
	root := kustomizationIn(folder)
	files := newRecorder(folder, root)
	built := build{folder: folder, files: files.read}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		built.problems = []Problem{kustomizeProblem(root, files.read[root], err)}
		return built
	}
	documents := map[string][]document{}
	for _, made := range resources.Resources() {
		object, problem := toObject(folder, root, made, files.read, documents)
		if problem != nil {
			built.problems = append(built.problems, *problem)
			continue
		}
		built.objects = append(built.objects, *object)
	}
	for _, parsed := range documents {
		for i := range parsed {
			built.problems = append(built.problems, parsed[i].duplicates()...)
		}
	}
	return built
}

// kustomizeProblem returns a problem at the entry that the error names, if any.
func kustomizeProblem(root string, content []byte, err error) Problem {
	text := err.Error()
	problem := Problem{Position: Position{File: root}, Message: "kustomize: " + text}
	var node yaml.Node
	if yaml.Unmarshal(content, &node) != nil || len(node.Content) == 0 {
		return problem
	}
	doc := &document{file: root, root: node.Content[0]}
	var walk func(node *yaml.Node) bool
	walk = func(node *yaml.Node) bool {
		for _, child := range node.Content {
			if child.Kind == yaml.ScalarNode && strings.Contains(child.Value, ".") && strings.Contains(text, filepath.Clean(child.Value)) {
				problem.Position = doc.position(child)
				return true
			}
			if walk(child) {
				return true
			}
		}
		return false
	}
	walk(doc.root)
	return problem
}

// toObject finds the document of a resource. A generated resource is at the kustomization.
func toObject(
	folder, root string, made *resource.Resource, files map[string][]byte, documents map[string][]document,
) (*object, *Problem) {
	content, err := made.MarshalJSON()
	value := map[string]any{}
	if err == nil {
		err = json.Unmarshal(content, &value)
	}
	if err != nil {
		return nil, &Problem{Position: Position{File: root}, Message: "kustomize: " + err.Error()}
	}
	file := root
	if origin, err := made.GetOrigin(); err == nil && origin != nil && origin.Repo == "" && origin.Path != "" {
		file = filepath.Join(folder, origin.Path)
	}
	unstructured.RemoveNestedField(value, "metadata", "annotations", originAnnotation)
	if left, found, _ := unstructured.NestedMap(value, "metadata", "annotations"); found && len(left) == 0 {
		unstructured.RemoveNestedField(value, "metadata", "annotations")
	}
	if _, known := documents[file]; !known {
		documents[file], _ = parse(file, files[file])
	}
	doc := documentOf(documents[file], value)
	if doc == nil {
		doc = &document{file: file, root: &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}, value: value}
	}
	return &object{Unstructured: unstructured.Unstructured{Object: value}, doc: doc, files: files}, nil
}

// documentOf finds the document of an object that kustomize may have renamed.
func documentOf(documents []document, value map[string]any) *document {
	var best *document
	wanted := unstructured.Unstructured{Object: value}
	for i := range documents {
		written := unstructured.Unstructured{Object: documents[i].value}
		switch {
		case written.GetKind() != wanted.GetKind():
		case written.GetName() == wanted.GetName():
			return &documents[i]
		case best == nil || strings.Contains(wanted.GetName(), written.GetName()):
			best = &documents[i]
		}
	}
	if best == nil && len(documents) > 0 {
		return &documents[0]
	}
	return best
}

// recorder is a file system that records the files that kustomize reads, and adds origin annotations without changing a file.
type recorder struct {
	filesys.FileSystem

	folder, root string
	// absolute is the folder's path in kustomize.
	absolute string
	read     map[string][]byte
}

func newRecorder(folder, root string) *recorder {
	disk := filesys.MakeFsOnDisk()
	made := &recorder{FileSystem: disk, folder: folder, root: root, read: map[string][]byte{}}
	if confirmed, _, err := disk.CleanedAbs(folder); err == nil {
		made.absolute = string(confirmed)
	}
	return made
}

// ReadFile implements filesys.FileSystem.
func (r *recorder) ReadFile(path string) ([]byte, error) {
	content, err := readFile(path)
	if err != nil {
		return nil, err
	}
	name := path
	if relative, err := filepath.Rel(r.absolute, path); err == nil && r.absolute != "" {
		name = filepath.Join(r.folder, relative)
	}
	r.read[name] = content
	if name == r.root {
		return withOrigins(content), nil
	}
	return content, nil
}

// withOrigins enables origin annotations in a kustomization. It returns an invalid one unchanged, which kustomize refuses.
func withOrigins(content []byte) []byte {
	fields := map[string]any{}
	if err := kyaml.Unmarshal(content, &fields); err != nil {
		return content
	}
	wishes, ok := fields["buildMetadata"].([]any)
	if !ok && fields["buildMetadata"] != nil {
		return content
	}
	fields["buildMetadata"] = append(wishes, "originAnnotations")
	changed, err := kyaml.Marshal(fields)
	if err != nil {
		return content
	}
	return changed
}
