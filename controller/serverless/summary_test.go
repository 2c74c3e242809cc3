package serverless

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReadyAndStalledFollowFromTheOtherConditions(t *testing.T) {
	t.Parallel()
	other := serverless("other", 2)
	const failure = "Warning: deployment kyma-system/serverless-ctrl-mngr has replica failure: quota"
	for name, tc := range map[string]struct {
		change func(*scope)
		want   []string
	}{
		"all is in force": {
			func(s *scope) { s.settings, s.deployment = inForce(), deployment(available, complete) },
			[]string{"Ready True Installed Serverless installed"},
		},
		"pods are replaced": {
			func(s *scope) { s.settings, s.deployment = inForce(), deployment() },
			[]string{"Ready Unknown Installation Installing for configuration"},
		},
		"a value makes no sense, and what was before is in force": {
			func(s *scope) {
				s.invalid, s.settings, s.deployment = errors.New("spec.logLevel is wrong"), inForce(), deployment(available, complete)
			},
			[]string{"Ready False ConfigurationErr spec.logLevel is wrong", "Stalled True ConfigurationErr spec.logLevel is wrong"},
		},
		"its namespace is not the operator's": {
			func(s *scope) { s.served, s.allowed = nil, false },
			[]string{
				"Ready False ConfigurationErr " + misplaced("kyma-system", []string{"rouse-system"}),
				"Stalled True ConfigurationErr " + misplaced("kyma-system", []string{"rouse-system"}),
			},
		},
		"another one is served, which may go": {
			func(s *scope) { s.served = &other },
			[]string{"Ready False ServerlessDuplicated only one instance of Serverless is allowed (current served instance: other/default) - " +
				"this Serverless CR is redundant - remove it to fix the problem"},
		},
		"a part of another owner, who may delete it": {
			func(s *scope) { s.settings, s.failed = inForce(), &foreignError{kind: "Service", key: "a/b"} },
			[]string{"Ready False InstallationErr " + (&foreignError{kind: "Service", key: "a/b"}).Error()},
		},
		"pods cannot be made": {
			func(s *scope) {
				s.settings = inForce()
				s.deployment = deployment(condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "quota"))
			},
			[]string{"Ready False DeploymentReplicaFailure " + failure},
		},
		"pods ran out of time": {
			func(s *scope) {
				s.settings = inForce()
				s.deployment = deployment(condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", "late"))
			},
			[]string{
				"Ready False InstallationErr deployment kyma-system/serverless-ctrl-mngr does not get ready: late. Find out why with " +
					"kubectl -n kyma-system describe pods -l app=serverless",
				"Stalled True InstallationErr deployment kyma-system/serverless-ctrl-mngr does not get ready: late. Find out why with " +
					"kubectl -n kyma-system describe pods -l app=serverless",
			},
		},
		"Functions keep it": {
			func(s *scope) { isDeleted(s.serverless); s.functions = 3 },
			[]string{"Ready False DeletionErr found 3 items with VersionKind serverless.kyma-project.io/v1alpha2: delete these Functions first, " +
				"kubectl get functions -A lists them"},
		},
		"its parts are gone": {
			func(s *scope) { isDeleted(s.serverless); s.removing, s.removed = true, true },
			[]string{"Ready False Deleted Serverless module deleted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := serverless("kyma-system", 1)
			one.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "Before", Message: "before"}}
			s := &scope{serverless: &one, served: &one, allowed: true, namespaces: []string{"rouse-system"}}
			tc.change(s)
			setStatus(s, begin)
			require.Equal(t, tc.want, shown(one.Status.Conditions, "Ready", "Stalled"))
		})
	}
}
