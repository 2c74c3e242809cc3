package migrate

import (
	"bytes"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/apirule/conversion"
	"github.com/rouse-run/rouse/internal/exposure"
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
	r := &Result{}
	for i, document := range split(content) {
		o, err := read(document)
		if err != nil {
			return Result{}, fmt.Errorf("%s: document %d %w", name, i+1, err)
		}
		switch {
		case o == nil:
		case o.isList():
			err = r.addList(name, o, document)
		default:
			err = r.add(name, o, document)
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: document %d: %w", name, i+1, err)
		}
	}
	return *r, nil
}

// addList takes a list apart when one of its objects has to be converted.
func (r *Result) addList(name string, list *object, document []byte) error {
	items := make([]*object, len(list.Items))
	for i, item := range list.Items {
		o, err := read(item)
		if err != nil || o == nil {
			return fmt.Errorf("item %d of the list is no object", i)
		}
		items[i] = o
	}
	if !slices.ContainsFunc(items, (*object).isOld) {
		r.Unchanged += len(items)
		r.write(document)
		return nil
	}
	for i, o := range items {
		text, err := yaml.JSONToYAML(list.Items[i])
		if err != nil {
			return fmt.Errorf("item %d of the list: %w", i, err)
		}
		if err := r.add(name, o, text); err != nil {
			return fmt.Errorf("item %d of the list: %w", i, err)
		}
	}
	return nil
}

func (r *Result) add(name string, o *object, document []byte) error {
	where := name + ": " + o.name() + ": "
	if !o.isOld() {
		if o.keepsOldSpec() {
			r.Notes = append(r.Notes, where+"passes as it is, because it has a spec: that of its annotation "+v2.AnnotationV1beta1Spec+" is not read")
		}
		r.Unchanged++
		r.write(document)
		return nil
	}
	made, problems, err := conversion.Convert(document)
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
func (r *Result) write(document []byte) {
	if len(r.Content) > 0 {
		r.Content = append(r.Content, "---\n"...)
	}
	r.Content = append(r.Content, document...)
	if !bytes.HasSuffix(document, []byte("\n")) {
		r.Content = append(r.Content, '\n')
	}
}

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
		line := fmt.Sprintf("Service %s is in another namespace: it needs the annotation %s: %s", target.Service, exposure.AnnotationFrom, made.Namespace)
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
