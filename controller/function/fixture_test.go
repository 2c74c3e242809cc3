package function

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// newFunction is a small valid Function.
func newFunction(changes ...func(*v1alpha2.Function)) *v1alpha2.Function {
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "price", Namespace: "shop", UID: "uid-of-price", Generation: 1},
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

func replicas(count int32) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) { fn.Spec.Replicas = new(count) }
}

// untypedScaledObjects reads them from a client that does not know their type: with it a fake one would forget the rest.
func untypedScaledObjects(reader client.Reader) func(context.Context, client.ObjectKey) (*resources.LiveScaledObject, error) {
	return func(ctx context.Context, key client.ObjectKey) (*resources.LiveScaledObject, error) {
		found := scaledObject()
		if err := reader.Get(ctx, key, found); err != nil {
			return nil, err
		}
		return liveScaledObject(found)
	}
}

func liveScaledObject(found *unstructured.Unstructured) (*resources.LiveScaledObject, error) {
	live := &resources.LiveScaledObject{}
	return live, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, live)
}
