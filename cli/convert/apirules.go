package convert

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/conversion"
)

// isOldAPIRule reports whether the object is an APIRule that needs a conversion: of an old version, or of a later one without a spec,
// whose old spec is in an annotation.
func isOldAPIRule(o *Object) bool {
	group, version, _ := strings.Cut(o.APIVersion, "/")
	if group != v2.GroupVersion.Group || o.Kind != "APIRule" {
		return false
	}
	return version == "v1beta1" || version == "v1alpha1" || hasOldSpec(o) && len(o.Spec) == 0
}

// hasOldSpec reports whether the object was written as v1beta1, and an annotation holds that spec.
func hasOldSpec(o *Object) bool {
	return o.Metadata.Annotations[v2.AnnotationOriginalVersion] == "v1beta1" && o.Metadata.Annotations[v2.AnnotationV1beta1Spec] != ""
}

// noteAnnotation reports an object whose annotation with an old spec is ignored because it has a spec.
func (c *converter) noteAnnotation(document located) {
	if hasOldSpec(document.Object) {
		c.note(document, "passes unchanged, because it has a spec: the one in its annotation "+v2.AnnotationV1beta1Spec+" is not read")
	}
}

func (c *converter) addAPIRule(document located) error {
	made, problems, err := conversion.ConvertAPIRule(document.Text)
	if err != nil {
		return err
	}
	if len(problems) == 0 {
		problems = validateAPIRule(made)
	}
	if len(problems) > 0 {
		c.APIRules.Failed++
		for _, problem := range problems {
			c.problem(document, problem.Attribute+": "+problem.Message)
		}
		return nil
	}
	_, text, err := manifest(made)
	if err != nil {
		return fmt.Errorf("encode an APIRule: %w", err)
	}
	for _, note := range serviceNotes(made) {
		c.note(document, note)
	}
	c.APIRules.Converted++
	c.write(document, text)
	return nil
}

// validateAPIRule returns the problems for which the controller would refuse the APIRule in any cluster: gateways and Services are
// assumed to exist.
func validateAPIRule(made *v2.APIRule) apirule.Problems {
	cluster := apirule.Cluster{
		Gateway: &apirule.Gateway{Hosts: []string{"*.example.com"}}, Services: map[types.NamespacedName]apirule.Service{},
	}
	for i := range made.Spec.Rules {
		if target, named := apirule.TargetOf(made, &made.Spec.Rules[i]); named {
			cluster.Services[target.Service] = apirule.Service{Selects: true}
		}
	}
	problems := apirule.Validate(made, cluster)
	for i := range problems {
		problems[i].Message = "version v2 refuses what it would become: " + problems[i].Message
	}
	return problems
}

// serviceNotes returns the changes that Services of other namespaces need.
func serviceNotes(made *v2.APIRule) []string {
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
