package convert

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/conversion"
	"github.com/rouse-run/rouse/internal/crdschema"
)

const (
	kindFunction      = "Function"
	kindGitRepository = "GitRepository"

	// maxObject bounds the bytes of an object: the API server stores no larger ones.
	maxObject = 3 << 20
)

// isOldFunction reports whether the object is a Function or GitRepository of v1alpha1.
func isOldFunction(o *Object) bool {
	return o.APIVersion == v1alpha1.GroupVersion.String() && (o.Kind == kindFunction || o.Kind == kindGitRepository)
}

func (c *converter) addRepository(document located) {
	c.Repositories++
	repository := &v1alpha1.GitRepository{}
	_, twice := c.repositories[document.key()]
	switch err := decode(document, repository); {
	case err != nil:
		c.problem(document, err.Error())
	case twice:
		c.problem(document, "it is defined twice: remove one of them")
	case repository.Spec.URL == "":
		c.problem(document, "spec.url: it is empty: set the URL of the repository")
	default:
		c.repositories[document.key()] = repository.Spec
	}
}

func (c *converter) addFunction(ctx context.Context, document located) error {
	old := &v1alpha1.Function{}
	if err := decode(document, old); err != nil {
		c.Functions.Failed++
		c.problem(document, err.Error())
		return nil
	}
	if name, needed := conversion.RepositoryOf(old); needed {
		c.used[name] = true
	}
	made, report := conversion.Up(old, c.repositories)
	problems := texts(report.Problems)
	var written []byte
	if len(problems) == 0 {
		conversion.Forget(made)
		var err error
		if written, problems, err = functionManifest(ctx, made); err != nil {
			return err
		}
	}
	for _, problem := range problems {
		c.problem(document, problem)
	}
	if len(problems) > 0 {
		c.Functions.Failed++
		return nil
	}
	if unknown := yaml.UnmarshalStrict(document.Text, &v1alpha1.Function{}); unknown != nil {
		report.Changed = append(report.Changed, conversion.Finding{
			Field: "unknown fields", Why: strings.TrimPrefix(unknown.Error(), "error unmarshaling JSON: while decoding JSON: "),
			Remedy: "they are left out; check their spelling",
		})
	}
	for _, note := range texts(report.Changed) {
		c.note(document, note)
	}
	c.Functions.Converted++
	c.write(document, written)
	return nil
}

// noteUnused reports the GitRepositories that no Function refers to.
func (c *converter) noteUnused(documents []located) {
	for _, document := range documents {
		if c.old(document.Object) && document.Object.Kind == kindGitRepository && !c.used[document.key()] {
			c.note(document, "no Function in the input refers to it: it is left out, and v1alpha2 has no equivalent")
		}
	}
}

func decode(document located, into any) error {
	if len(document.Text) > maxObject {
		return fmt.Errorf("it has %d bytes, more than the %d of the largest object that a cluster stores", len(document.Text), maxObject)
	}
	if err := yaml.Unmarshal(document.Text, into); err != nil {
		return fmt.Errorf("it cannot be decoded: %s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	return nil
}

func texts(findings []conversion.Finding) []string {
	lines := make([]string, len(findings))
	for i, finding := range findings {
		lines[i] = finding.String()
	}
	return lines
}

// functionManifest returns the manifest of a converted Function without the fields that a cluster sets, or the reasons why the API server
// or the controller would refuse it.
func functionManifest(ctx context.Context, made *v1alpha2.Function) (text []byte, problems []string, err error) {
	made.ObjectMeta, made.Status = metadata(&made.ObjectMeta), v1alpha2.FunctionStatus{}
	content, text, err := manifest(made)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a Function: %w", err)
	}
	definition, err := functionDefinition()
	if err != nil {
		return nil, nil, err
	}
	admitted := &unstructured.Unstructured{Object: content}
	if admitted.GetNamespace() == "" {
		admitted.SetNamespace(metav1.NamespaceDefault) // kubectl sets it when the manifest is applied
	}
	_, errs := definition.Admit(ctx, admitted)
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

// metadata returns the metadata that the user wrote.
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

// functionDefinition returns the CRD of Functions in the chart.
var functionDefinition = sync.OnceValues(func() (*crdschema.Definition, error) {
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
