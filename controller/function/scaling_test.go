package function

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/workload"
)

// userHPA is what "kubectl autoscale function price" creates.
func userHPA(namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 3,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: v1alpha2.GroupVersion.String(), Kind: resources.FunctionKind, Name: "price",
			},
		},
	}
}

func TestConflictingAutoscalersAreUsersWithTheSameTarget(t *testing.T) {
	t.Parallel()
	hpa := func(name, kind, target string, owner *metav1.OwnerReference) *autoscalingv2.HorizontalPodAutoscaler {
		built := userHPA("shop", name)
		built.Spec.ScaleTargetRef.Kind, built.Spec.ScaleTargetRef.Name = kind, target
		if owner != nil {
			owner.Controller = new(true)
			built.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		return built
	}
	elsewhere := userHPA("market", "elsewhere")
	b := newBench(t, true, elsewhere,
		hpa("on-function", "Function", "price", nil),
		hpa("on-deployment", "Deployment", "price", nil),
		hpa("of-their-scaledobject", "Function", "price", &metav1.OwnerReference{Kind: "ScaledObject", Name: "theirs", UID: "x"}),
		hpa("of-our-scaledobject", "Deployment", "price", &metav1.OwnerReference{Kind: "ScaledObject", Name: "price", UID: "y"}),
		hpa("ours", "Deployment", "price", &metav1.OwnerReference{Kind: "Function", Name: "price", UID: "uid-of-price"}),
		hpa("on-another", "Function", "other", nil),
		hpa("on-another-kind", "StatefulSet", "price", nil),
	)
	s := newScope(func(s *scope) { scaled(0, 5)(s.fn) })
	require.NoError(t, b.findConflictingAutoscalers(t.Context(), s))
	require.Equal(t, []string{"of-their-scaledobject", "on-deployment", "on-function"}, s.conflictingAutoscalers)

	s = newScope()
	require.NoError(t, b.findConflictingAutoscalers(t.Context(), s))
	require.Empty(t, s.conflictingAutoscalers, "without a scaleConfig they are welcome")
}

func TestTheCacheReducesUsersAutoscalersToTheirTarget(t *testing.T) {
	t.Parallel()
	fields := []metav1.ManagedFieldsEntry{{Manager: "x"}}
	theirs, ours := userHPA("shop", "mine"), userHPA("shop", "price")
	theirs.ManagedFields, ours.ManagedFields = fields, fields
	ours.Labels = map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	for _, hpa := range []*autoscalingv2.HorizontalPodAutoscaler{theirs, ours} {
		_, err := withoutMeasures(hpa)
		require.NoError(t, err)
		require.Equal(t, "price", targetOf(hpa))
	}
	require.Empty(t, theirs.ManagedFields)
	require.Equal(t, fields, ours.ManagedFields, "they are needed to decide whether to apply")
}

func noticesAnotherAutoscaler(w *fixture) {
	t := w.t
	fn := w.create(scaled(0, 5))
	w.awaitCondition(fn, v1alpha2.ConditionScaling, metav1.ConditionUnknown, v1alpha2.ReasonScaledObjectWaiting)
	hpa := userHPA(w.namespace, "mine")
	require.NoError(t, w.Create(t.Context(), hpa))
	condition := w.awaitCondition(fn, v1alpha2.ConditionScaling, metav1.ConditionFalse, v1alpha2.ReasonScaledObjectFailed)
	require.Contains(t, condition.Message, "HorizontalPodAutoscaler mine scales the Function too")
	require.NoError(t, w.Delete(t.Context(), hpa))
	w.awaitCondition(fn, v1alpha2.ConditionScaling, metav1.ConditionUnknown, v1alpha2.ReasonScaledObjectWaiting)
}

func TestPodsOfKymasContractReportNoHTTPLoad(t *testing.T) {
	t.Parallel()
	kymas := func(s *scope) { s.code.Kyma = true }
	waitsForItsImage := func(s *scope) { s.code.Image = "" }
	present := func(counted bool) func(*scope) {
		return func(s *scope) {
			scaled(0, 1)(s.fn)
			object := resources.ScaledObject(s.fn, resources.Scaling{HTTPWake: true}, workload.Tuning{HTTPWake: true}, nil, counted)
			s.scaledObject, _ = liveScaledObject(object)
		}
	}
	for name, tc := range map[string]struct {
		scope *scope
		want  bool
	}{
		"an image of ours":                             {scope: newScope(), want: true},
		"an image of Kyma's contract":                  {scope: newScope(kymas)},
		"an image of ours in the place of one":         {scope: newScope(present(false)), want: true},
		"as long as the image of ours is not built":    {scope: newScope(present(false), waitsForItsImage)},
		"an image of ours that waits for the next one": {scope: newScope(present(true), waitsForItsImage, kymas), want: true},
		"a new Function without an image":              {scope: newScope(waitsForItsImage), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.scope.httpCounted())
		})
	}
}
