package convert

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/crdschema"
)

// rules are those of the CRD of Functions.
var rules = sync.OnceValues(func() (*crdschema.Definition, error) {
	files, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	definitions, err := crdschema.Definitions(files)
	if err != nil {
		return nil, err
	}
	return definitions[v1alpha2.GroupVersion.WithKind(kindFunction)], nil
})

// write is what a user would have written, and why a cluster would refuse it.
func write(ctx context.Context, made *v1alpha2.Function) (text []byte, problems []string, err error) {
	made.ObjectMeta, made.Status = metadata(&made.ObjectMeta), v1alpha2.FunctionStatus{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		return nil, nil, fmt.Errorf("write a Function: %w", err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	if text, err = yaml.Marshal(content); err != nil {
		return nil, nil, fmt.Errorf("write a Function: %w", err)
	}
	definition, err := rules()
	if err != nil {
		return nil, nil, err
	}
	judged := &unstructured.Unstructured{Object: content}
	if judged.GetNamespace() == "" {
		judged.SetNamespace(metav1.NamespaceDefault) // it is said when the manifest is applied
	}
	_, errs := definition.Admit(ctx, judged)
	for _, refused := range errs {
		problems = append(problems, "v1alpha2 refuses what it would become: "+refused.Error())
	}
	if len(problems) > 0 {
		return nil, problems, nil
	}
	for _, refused := range admission.Function(made, true) {
		problems = append(problems, "the controller refuses what it would become: "+refused.Field+": "+refused.Text)
	}
	return text, problems, nil
}

// metadata is what a user wrote of it.
func metadata(of *metav1.ObjectMeta) metav1.ObjectMeta {
	annotations := maps.Clone(of.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "kubectl.kubernetes.io/") })
	if len(annotations) == 0 {
		annotations = nil
	}
	return metav1.ObjectMeta{
		Name: of.Name, GenerateName: of.GenerateName, Namespace: of.Namespace, Labels: maps.Clone(of.Labels), Annotations: annotations,
	}
}
