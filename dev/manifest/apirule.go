package manifest

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// APIRule is an APIRule with the CRD's defaults, whichever version it is written in.
type APIRule struct {
	*gatewayv2.APIRule
	// At is where it stands.
	At Position

	object object
}

// Problem is one about a field of the APIRule, by its path, such as ".spec.rules[0].service".
func (r APIRule) Problem(path, message, remedy string) Problem {
	return r.object.problem(strings.TrimPrefix(path, "."), message, remedy)
}

func (d *decoder) addAPIRule(o *object) {
	rule := &gatewayv2.APIRule{}
	if !d.into(o, rule) {
		return
	}
	// A cluster makes these, and does not believe what files say of them.
	rule.UID, rule.Generation, rule.CreationTimestamp, rule.DeletionTimestamp = "", 0, metav1.Time{}, nil
	rule.Status = gatewayv2.APIRuleStatus{}
	d.set.APIRules = append(d.set.APIRules, APIRule{APIRule: rule, At: o.position(), object: *o})
}
