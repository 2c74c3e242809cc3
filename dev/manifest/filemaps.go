package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// FileMap is the ConfigMap with the files of Functions whose source is a folder.
type FileMap struct {
	*corev1.ConfigMap
	// At is the position of the first of these Functions, and Dir their folder.
	At  Position
	Dir string
}

// FileMaps returns the ConfigMaps that Functions name for their files and that are not among the manifests, each once.
func FileMaps(functions []Function) (made []FileMap, problems []Problem) {
	known := map[types.NamespacedName]string{} // the folder of each
	for _, fn := range functions {
		name := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Spec.Annotations[serverlessv1alpha2.AnnotationFiles]}
		switch {
		case name.Name == "" || fn.Files == nil || fn.Files.ConfigMap || known[name] == fn.Files.Dir:
			continue
		case known[name] != "":
			problems = append(problems, Problem{
				Position: fn.At, Object: "ConfigMap " + name.String(),
				Message: fmt.Sprintf("would have the files of %s and of %s", known[name], fn.Files.Dir),
				Remedy:  "name another one in spec.annotations[" + serverlessv1alpha2.AnnotationFiles + "]",
			})
			continue
		}
		known[name] = fn.Files.Dir
		text, binary, err := fn.Files.Content.Data()
		if err != nil {
			problems = append(problems, Problem{Position: fn.At, Message: err.Error()})
			continue
		}
		made = append(made, FileMap{At: fn.At, Dir: fn.Files.Dir, ConfigMap: &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kindConfigMap},
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Data:       text, BinaryData: binary,
		}})
	}
	return made, problems
}

// addFileMaps adds the ConfigMaps of folders to what a cluster gets, and tells Functions of one content of their files from
// those of another.
func (d *decoder) addFileMaps(read *Objects) error {
	d.addFiles()
	if err := addDigests(read.Deployed, d.set.Functions); err != nil {
		return err
	}
	made, problems := FileMaps(d.set.Functions)
	for _, problem := range problems {
		d.note(problem)
	}
	for _, each := range made {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(each.ConfigMap)
		if err != nil {
			return fmt.Errorf("write ConfigMap %s/%s: %w", each.Namespace, each.Name, err)
		}
		read.Deployed = append(read.Deployed, Object{Unstructured: &unstructured.Unstructured{Object: content}, At: each.At})
	}
	return nil
}

// addDigests writes the digest of their files into Functions. A ConfigMap that changes under its name would otherwise leave the
// Function's generation, for which a deploy waits, as it was.
func addDigests(objects []Object, functions []Function) error {
	digests := map[types.NamespacedName]string{}
	for _, fn := range functions {
		if fn.Files != nil && fn.Spec.Annotations[serverlessv1alpha2.AnnotationFiles] != "" {
			digests[types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}] = fn.Files.Content.Digest()
		}
	}
	for _, object := range objects {
		digest, ok := digests[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}]
		if !ok || object.GetKind() != kindFunction {
			continue
		}
		if err := unstructured.SetNestedField(object.Object, digest, "spec", "annotations", serverlessv1alpha2.AnnotationFilesDigest); err != nil {
			return fmt.Errorf("write Function %s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
	}
	return nil
}
