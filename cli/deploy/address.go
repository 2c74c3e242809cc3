package deploy

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// SetAddresses adds the addresses at which the applied objects are called. exposed has the URLs of APIRules, by Function.
func SetAddresses(results []Result, exposed map[types.NamespacedName][]string) {
	for i := range results {
		results[i].Address = addressOf(&results[i], exposed)
	}
}

// addressOf returns the URL of a Function from outside, or else the one inside the cluster; of a Door its URL.
func addressOf(result *Result, exposed map[types.NamespacedName][]string) string {
	switch {
	case result.applied == nil:
		return ""
	case result.Kind == kindFunction:
		inside := "http://" + result.Name + "." + result.Namespace + ".svc.cluster.local"
		if urls := exposed[types.NamespacedName{Namespace: result.Namespace, Name: result.Name}]; len(urls) > 0 {
			return cmp.Or(urls[0], inside)
		}
		return inside
	}
	url, _, _ := unstructured.NestedString(result.applied.Object, "status", "url")
	return url
}
