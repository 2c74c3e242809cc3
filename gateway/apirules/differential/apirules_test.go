package differential

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

const (
	namespace = "shop"
	gateway   = "kyma-system/kyma-gateway"
)

// apiRule is one of the test, at a full host.
type apiRule struct {
	host    string
	service string
	spec    v2.APIRuleSpec
}

// rulesAt is an APIRule with a Service of its own.
func rulesAt(host, service string, rules ...v2.Rule) apiRule {
	at := gateway
	return apiRule{host: host, service: service, spec: v2.APIRuleSpec{Hosts: []v2.Host{v2.Host(host)}, Gateway: &at, Rules: rules}}
}

func (r apiRule) withCORS(policy v2.CORSPolicy) apiRule {
	r.spec.CORSPolicy = &policy
	return r
}

func (r apiRule) withTimeout(timeout v2.Timeout) apiRule {
	r.spec.Timeout = &timeout
	return r
}

func (r *apiRule) target(rule *v2.Rule) types.NamespacedName {
	name := r.service
	if rule.Service != nil {
		name = rule.Service.Name
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// resource is the object of Kubernetes. Ports are those of this machine.
func (r *apiRule) resource(index int, ports map[types.NamespacedName]int32) *v2.APIRule {
	resource := &v2.APIRule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("rule-%03d", index)}}
	resource.Spec = *r.spec.DeepCopy()
	for i := range resource.Spec.Rules {
		target := r.target(&r.spec.Rules[i])
		resource.Spec.Rules[i].Service = &v2.Service{Name: target.Name, Port: ports[target]}
	}
	return resource
}

// open is a rule without authentication.
func open(path string, methods ...v2.Method) v2.Rule {
	yes := true
	return v2.Rule{Path: path, Methods: orGet(methods), NoAuth: &yes}
}

func withTokens(path string, jwt v2.JWT, methods ...v2.Method) v2.Rule {
	return v2.Rule{Path: path, Methods: orGet(methods), JWT: &jwt}
}

func asking(path string, extAuth v2.ExtAuth, methods ...v2.Method) v2.Rule {
	return v2.Rule{Path: path, Methods: orGet(methods), ExtAuth: &extAuth}
}

func orGet(methods []v2.Method) []v2.Method {
	if len(methods) == 0 {
		return []v2.Method{"GET"}
	}
	return methods
}
