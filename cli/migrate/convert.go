package migrate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/cli/convert"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/conversion"
)

// Result is what became of a file.
type Result struct {
	// Content are its documents, without the APIRules that cannot be converted.
	Content []byte
	// Problems are lines about what cannot be converted, Notes about what has to be done beside it.
	Problems, Notes []string

	Converted, Failed, Unchanged int
}

// APIRules converts those of a file that are of an old version. name is that of the file in messages. An error says that the file
// cannot be read as manifests.
func APIRules(name string, content []byte) (Result, error) {
	documents, err := convert.Documents(name, content, isOld)
	if err != nil {
		return Result{}, err
	}
	r := &Result{}
	for _, document := range documents {
		if err := r.add(name, document); err != nil {
			return Result{}, fmt.Errorf("%s: %s: %w", name, document.Where, err)
		}
	}
	return *r, nil
}

// isOld reports whether the object is an APIRule that has to be converted: of an old version, or of a later one in which only an
// annotation has the spec.
func isOld(o *convert.Object) bool {
	group, version, _ := strings.Cut(o.APIVersion, "/")
	if group != v2.GroupVersion.Group || o.Kind != "APIRule" {
		return false
	}
	return version == "v1beta1" || version == "v1alpha1" || keepsOldSpec(o) && len(o.Spec) == 0
}

// keepsOldSpec reports whether the object was written as v1beta1, and an annotation has that spec.
func keepsOldSpec(o *convert.Object) bool {
	return o.Metadata.Annotations[v2.AnnotationOriginalVersion] == "v1beta1" && o.Metadata.Annotations[v2.AnnotationV1beta1Spec] != ""
}

func (r *Result) add(name string, document convert.Document) error {
	o := document.Object
	where := name + ": " + o.FullName() + ": "
	if !isOld(o) {
		if keepsOldSpec(o) {
			r.Notes = append(r.Notes, where+"passes as it is, because it has a spec: that of its annotation "+v2.AnnotationV1beta1Spec+" is not read")
		}
		r.Unchanged += document.Objects
		r.write(document.Text)
		return nil
	}
	made, problems, err := conversion.ConvertAPIRule(document.Text)
	if err != nil {
		return err
	}
	if len(problems) == 0 {
		problems = judge(made)
	}
	if len(problems) > 0 {
		r.Failed++
		for _, problem := range problems {
			r.Problems = append(r.Problems, where+problem.Attribute+": "+problem.Message)
		}
		return nil
	}
	text, err := manifestOf(made)
	if err != nil {
		return err
	}
	for _, note := range notes(made) {
		r.Notes = append(r.Notes, where+note)
	}
	r.Converted++
	r.write(text)
	return nil
}

// write adds a document.
func (r *Result) write(document []byte) { r.Content = convert.Append(r.Content, document) }

// judge finds what the controller would refuse, wherever the APIRule is applied: gateways and Services are taken to be there.
func judge(made *v2.APIRule) apirule.Problems {
	around := apirule.Cluster{
		Gateway: &apirule.Gateway{Hosts: []string{"*.example.com"}}, Services: map[types.NamespacedName]apirule.Service{},
	}
	for i := range made.Spec.Rules {
		if target, named := apirule.TargetOf(made, &made.Spec.Rules[i]); named {
			around.Services[target.Service] = apirule.Service{Selects: true}
		}
	}
	problems := apirule.Validate(made, around)
	for i := range problems {
		problems[i].Message = "version v2 refuses what it would become: " + problems[i].Message
	}
	return problems
}

// notes say what has to be changed outside the APIRule.
func notes(made *v2.APIRule) []string {
	var lines []string
	for i := range made.Spec.Rules {
		target, named := apirule.TargetOf(made, &made.Spec.Rules[i])
		if !named || made.Namespace == "" || target.Service.Namespace == made.Namespace {
			continue
		}
		line := fmt.Sprintf("Service %s is in another namespace: it needs the annotation %s: %s", target.Service, apirule.AnnotationFrom, made.Namespace)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// manifestOf is what a user would have written.
func manifestOf(made *v2.APIRule) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made)
	if err != nil {
		return nil, fmt.Errorf("write an APIRule: %w", err)
	}
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return yaml.Marshal(content)
}
