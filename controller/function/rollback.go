package function

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// annotationRevision is how the Deployment controller numbers ReplicaSets. One
// that serves again gets the highest number.
const annotationRevision = "deployment.kubernetes.io/revision"

// rollBack puts an earlier version in the place of the spec's when the user asks
// for one. It needs no build: the images of ReplicaSets exist.
func (r *Reconciler) rollBack(ctx context.Context, s *scope) error {
	wanted := s.fn.Annotations[v1alpha2.AnnotationRollbackTo]
	if wanted == "" || wanted == s.ownVersion() {
		return nil
	}
	sets := &appsv1.ReplicaSetList{}
	err := r.live.List(ctx, sets, client.InNamespace(s.fn.Namespace), client.MatchingLabels(resources.SelectorLabels(s.fn)))
	if err != nil {
		return fmt.Errorf("list the earlier versions of %q: %w", s.fn.Name, err)
	}
	versions := versionsOf(sets.Items)
	found := slices.IndexFunc(versions, func(code resources.Code) bool {
		if wanted == v1alpha2.RollbackPrevious {
			return code.Version() != s.ownVersion()
		}
		return code.Version() == wanted
	})
	if found < 0 {
		return kube.Stalled(&failure{
			condition: v1alpha2.ConditionConfigurationReady, reason: v1alpha2.ReasonRollbackFailed,
			message: unknownVersion(wanted, s.ownVersion(), versions),
		})
	}
	s.own, s.code, s.rolledBack = s.code, versions[found], true
	return nil
}

// versionsOf lists what ReplicaSets run or ran, each version once and the
// newest first.
func versionsOf(sets []appsv1.ReplicaSet) []resources.Code {
	revision := func(set *appsv1.ReplicaSet) int64 {
		number, err := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64)
		if err != nil {
			return 0 // not made by the Deployment controller
		}
		return number
	}
	slices.SortStableFunc(sets, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(revision(&b), revision(&a)) })
	var versions []resources.Code
	for i := range sets {
		code, ok := resources.CodeOf(&sets[i].Spec.Template)
		known := slices.ContainsFunc(versions, func(other resources.Code) bool { return other.Version() == code.Version() })
		if ok && !known {
			versions = append(versions, code)
		}
	}
	return versions
}

func unknownVersion(wanted, own string, versions []resources.Code) string {
	var names []string
	for _, code := range versions {
		if code.Version() != own {
			names = append(names, code.Version())
		}
	}
	message := fmt.Sprintf("The annotation %s asks for ", v1alpha2.AnnotationRollbackTo)
	if wanted == v1alpha2.RollbackPrevious {
		return message + "the previous version, but there is none. Remove the annotation"
	}
	message += fmt.Sprintf("version %q, which does not exist. ", wanted)
	if len(names) == 0 {
		return message + "There is no earlier version: remove the annotation"
	}
	return message + fmt.Sprintf("Set it to one of the earlier versions %s (the newest first), or remove it", strings.Join(names, ", "))
}

// rolledBackCondition reports that what serves is not what the spec says.
func rolledBackCondition(s *scope) conditionUpdate {
	instead := "the spec's"
	if own := s.ownVersion(); own != "" {
		instead += " " + own
	}
	return conditionUpdate{
		status: metav1.ConditionTrue, reason: v1alpha2.ReasonRolledBack,
		message: fmt.Sprintf("Warning: serves version %s instead of %s, as the annotation %s asks. Remove it to go forward",
			s.code.Version(), instead, v1alpha2.AnnotationRollbackTo),
	}
}
