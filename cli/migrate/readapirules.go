package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/conversion"
)

const (
	finalizerAPIRule = "gateway.kyma-project.io/subresources"
	// Labels of what Kyma's API gateway makes for an APIRule; the older one has name.namespace.
	labelRuleName      = "apirule.gateway.kyma-project.io/name"
	labelRuleNamespace = "apirule.gateway.kyma-project.io/namespace"
	labelRuleOlder     = "apirule.gateway.kyma-project.io/v1beta1"
)

// madeForAPIRules are the kinds of Istio's that Kyma's API gateway writes.
func madeForAPIRules() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "networking.istio.io", Resource: "virtualservices"},
		{Group: "security.istio.io", Resource: "requestauthentications"},
		{Group: "security.istio.io", Resource: "authorizationpolicies"},
	}
}

func (r reading) apiRules(ctx context.Context, s *Survey) error {
	resource := v2.GroupVersion.WithResource("apirules")
	byName := map[string]*APIRule{}
	err := r.objects.Each(ctx, resource, "", "", maxObjects, func(found *unstructured.Unstructured) error {
		rule, err := apiRuleOf(found, resource)
		if err == nil {
			byName[rule.key()] = rule
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.NoAPIRules = err.Error() // the webhook of Kyma's CRD is gone with its controller
		return nil
	}
	if err != nil {
		return err
	}
	return r.madeFor(ctx, s, byName)
}

// madeFor adds the objects of Istio's to the APIRules.
func (r reading) madeFor(ctx context.Context, s *Survey, byName map[string]*APIRule) error {
	kubernetes, _ := r.conn.Kubernetes() // Objects come from a cluster
	versions, err := kubernetes.Served(ctx, schema.GroupResource{Group: v2.GroupVersion.Group, Resource: "apirules"})
	if err != nil {
		return err
	}
	if len(versions) > 0 && !slices.Contains(versions, v2.GroupVersion.Version) {
		s.NoAPIRules = "the cluster serves them as " + strings.Join(versions, ", ") + " alone"
	}
	for _, made := range madeForAPIRules() {
		versions, err := kubernetes.Served(ctx, made)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			continue
		}
		for _, selector := range []string{labelRuleName, labelRuleOlder} {
			gvr := made.WithVersion(versions[0])
			err := r.objects.Each(ctx, gvr, "", selector, maxObjects, func(found *unstructured.Unstructured) error {
				if rule := byName[ruleOf(found.GetLabels())]; rule != nil {
					rule.Rest = append(rule.Rest, objectOf(gvr, found))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for _, rule := range byName {
		s.APIRules = append(s.APIRules, *rule)
	}
	slices.SortFunc(s.APIRules, func(a, b APIRule) int { return strings.Compare(a.key(), b.key()) })
	return nil
}

// ruleOf is the namespace/name of the APIRule that an object of Istio's is for.
func ruleOf(labels map[string]string) string {
	if name, set := labels[labelRuleName]; set {
		return labels[labelRuleNamespace] + "/" + name
	}
	older := labels[labelRuleOlder]
	i := strings.LastIndex(older, ".") // names have dots, namespaces have none
	if i < 0 {
		return ""
	}
	return older[i+1:] + "/" + older[:i]
}

func apiRuleOf(found *unstructured.Unstructured, resource schema.GroupVersionResource) (*APIRule, error) {
	rule, err := into[v2.APIRule](found)
	if err != nil {
		return nil, err
	}
	read := &APIRule{Object: objectOf(resource, found)}
	if len(rule.Spec.Hosts) > 0 {
		read.Host = string(rule.Spec.Hosts[0])
	}
	if rule.Spec.Gateway != nil {
		read.Gateway = *rule.Spec.Gateway
	}
	read.Finalizer, read.released = withoutFinalizer(found, finalizerAPIRule)
	for _, condition := range rule.Status.Conditions { // Kyma writes none
		if condition.Type == "Ready" {
			read.Ready = condition.Status == metav1.ConditionTrue && rule.Status.ObservedGeneration == rule.Generation
		}
	}
	if !read.Ready && len(rule.Status.Conditions) > 0 {
		read.Problem = rule.Status.Description
	}
	if spec, _, _ := unstructured.NestedMap(found.Object, "spec"); len(spec) == 0 {
		read.OldSpec, read.NoSpec, err = convert(found)
	}
	return read, err
}

// convert is a patch with the spec that Kyma keeps in an annotation for APIRules of v1beta1.
func convert(found *unstructured.Unstructured) (patch, problem string, err error) {
	document, err := json.Marshal(found)
	if err != nil {
		return "", "", fmt.Errorf("write %s: %w", found.GetName(), err)
	}
	made, problems, err := conversion.ConvertAPIRule(document)
	switch {
	case err != nil:
		return "", err.Error(), nil //nolint:nilerr // the plan reports it
	case len(problems) > 0:
		return "", problems.Description(), nil
	}
	text, err := json.Marshal(map[string]any{"spec": made.Spec})
	if err != nil {
		return "", "", fmt.Errorf("write %s: %w", found.GetName(), err)
	}
	return string(text), "", nil
}
