package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// newFunction is a small valid Function.
func newFunction(changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: "shop"},
		Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS22,
			Source:  v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
		},
	}
	for _, change := range changes {
		change(fn)
	}
	return fn
}

func scaled(low, high int32) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) {
		fn.Spec.ScaleConfig = &v1alpha2.ScaleConfig{MinReplicas: new(low), MaxReplicas: new(high)}
	}
}

// runs is an installation with two runtimes.
func runs(fn *v1alpha2.Function) bool {
	return fn.Spec.Runtime == v1alpha2.RuntimeNodeJS22 || fn.Spec.Runtime == v1alpha2.RuntimePython312
}
