package serverless

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func serverless(namespace string, age int, change ...func(*operatorv1alpha1.Serverless)) operatorv1alpha1.Serverless {
	made := operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "default", UID: types.UID(namespace), CreationTimestamp: metav1.NewTime(begin.Add(-time.Duration(age) * time.Hour)),
	}}
	for _, c := range change {
		c(&made)
	}
	return made
}

func isServed(s *operatorv1alpha1.Serverless)  { s.Status.Served = operatorv1alpha1.ServedTrue }
func isDeleted(s *operatorv1alpha1.Serverless) { s.DeletionTimestamp = &metav1.Time{Time: begin} }

func TestOneServerlessIsServed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		all  []operatorv1alpha1.Serverless
		want string
	}{
		"none":                                             {nil, ""},
		"the only one":                                     {[]operatorv1alpha1.Serverless{serverless("a", 1)}, "a"},
		"the oldest of two":                                {[]operatorv1alpha1.Serverless{serverless("a", 1), serverless("b", 2)}, "b"},
		"the first by name of two of one second":           {[]operatorv1alpha1.Serverless{serverless("b", 1), serverless("a", 1)}, "a"},
		"the served one, regardless of its age":            {[]operatorv1alpha1.Serverless{serverless("a", 1, isServed), serverless("b", 2)}, "a"},
		"the served one until it is deleted":               {[]operatorv1alpha1.Serverless{serverless("a", 1, isServed, isDeleted), serverless("b", 2)}, "a"},
		"the older of two that are said to be served":      {[]operatorv1alpha1.Serverless{serverless("a", 1, isServed), serverless("b", 2, isServed)}, "b"},
		"not one that is being deleted":                    {[]operatorv1alpha1.Serverless{serverless("a", 2, isDeleted), serverless("b", 1)}, "b"},
		"not one in a namespace without permissions":       {[]operatorv1alpha1.Serverless{serverless("forbidden", 2), serverless("b", 1)}, "b"},
		"no Serverless in a namespace without permissions": {[]operatorv1alpha1.Serverless{serverless("forbidden", 2)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen := choose(tc.all, func(namespace string) bool { return namespace != "forbidden" })
			if tc.want == "" {
				require.Nil(t, chosen)
				return
			}
			require.NotNil(t, chosen)
			require.Equal(t, tc.want, chosen.Namespace)
		})
	}
}

func deployment(conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "serverless-ctrl-mngr", Generation: 2},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: conditions},
	}
}

func condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

var (
	available = condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "")
	complete  = condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", "")
)

func TestADeploymentIsReadyOnlyInItsCurrentVersion(t *testing.T) {
	t.Parallel()
	old, unavailable := deployment(available, complete), deployment(available, complete)
	old.Status.ObservedGeneration, unavailable.Status.UnavailableReplicas = 1, 1
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		want       rollout
	}{
		"all is there":            {deployment(available, complete), rollout{ready: true}},
		"no conditions yet":       {deployment(), rollout{}},
		"it is a previous status": {old, rollout{}},
		"a pod is not available":  {unavailable, rollout{}},
		"pods are replaced":       {deployment(available, condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", "")), rollout{}},
		"pods cannot be made": {
			deployment(complete, condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "exceeded quota")),
			rollout{failure: "Warning: deployment kyma-system/serverless-ctrl-mngr has replica failure: exceeded quota"},
		},
		"pods do not start": {
			deployment(condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", "it has timed out progressing")),
			rollout{stalled: errors.New("deployment kyma-system/serverless-ctrl-mngr does not get ready: it has timed out progressing. " +
				"Find out why with kubectl -n kyma-system describe pods -l app=serverless")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, verify(tc.deployment))
		})
	}
}

func inForce() *resources.Settings {
	return &resources.Settings{EventingEndpoint: "http://bridge/publish", DefaultPreset: "L", LogLevel: "info", LogFormat: "json"}
}

func TestStatusFollowsFromTheScope(t *testing.T) {
	t.Parallel()
	other := serverless("other", 2)
	ready := deployment(available, complete)
	for name, tc := range map[string]struct {
		change func(*scope)
		state  operatorv1alpha1.State
		served operatorv1alpha1.Served
		want   []string // type, status, reason and message of conditions
	}{
		"another one is served": {
			func(s *scope) { s.served = &other }, operatorv1alpha1.StateWarning, operatorv1alpha1.ServedFalse,
			[]string{"Configured False ServerlessDuplicated only one instance of Serverless is allowed (current served instance: other/default) - " +
				"this Serverless CR is redundant - remove it to fix the problem"},
		},
		"the operator lacks permissions in the namespace": {
			func(s *scope) { s.served, s.allowed = nil, false }, operatorv1alpha1.StateError, operatorv1alpha1.ServedFalse,
			[]string{"Configured False ConfigurationErr the operator does not work in namespace kyma-system: move this Serverless to one of " +
				"[rouse-system], or add the namespace to the chart's value operator.namespaces"},
		},
		"it is being installed": {
			func(s *scope) { s.settings, s.deployment = inForce(), deployment() }, operatorv1alpha1.StateProcessing, operatorv1alpha1.ServedTrue,
			[]string{"Configured True Configured Configuration ready", "Installed Unknown Installation Installing for configuration"},
		},
		"it is installed": {
			func(s *scope) { s.settings, s.deployment = inForce(), ready }, operatorv1alpha1.StateReady, operatorv1alpha1.ServedTrue,
			[]string{"Configured True Configured Configuration ready", "Installed True Installed Serverless installed"},
		},
		"it is invalid from the start": {
			func(s *scope) { s.invalid = errors.New("spec.logLevel is wrong") }, operatorv1alpha1.StateError, operatorv1alpha1.ServedTrue,
			[]string{"Configured False ConfigurationErr spec.logLevel is wrong"},
		},
		"it becomes invalid, and the previous settings stay": {
			func(s *scope) {
				s.invalid, s.settings, s.deployment = errors.New("spec.logLevel is wrong"), inForce(), ready
			},
			operatorv1alpha1.StateError, operatorv1alpha1.ServedTrue,
			[]string{"Configured False ConfigurationErr spec.logLevel is wrong", "Installed True Installed Serverless installed"},
		},
		"a part cannot be written": {
			func(s *scope) { s.settings, s.failed = inForce(), errors.New("quota") }, operatorv1alpha1.StateError, operatorv1alpha1.ServedTrue,
			[]string{"Configured True Configured Configuration ready", "Installed False InstallationErr quota"},
		},
		"pods cannot be made": {
			func(s *scope) {
				s.settings = inForce()
				s.deployment = deployment(condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "quota"))
			}, operatorv1alpha1.StateError, operatorv1alpha1.ServedTrue,
			[]string{
				"Configured True Configured Configuration ready", "Installed Unknown Installation Installing for configuration",
				"DeploymentFailure True DeploymentReplicaFailure Warning: deployment kyma-system/serverless-ctrl-mngr has replica failure: quota",
			},
		},
		"its deletion begins": {
			func(s *scope) { isDeleted(s.serverless) }, operatorv1alpha1.StateDeleting, "", []string{"Deleted Unknown Deletion Uninstalling"},
		},
		"Functions block its deletion": {
			func(s *scope) { isDeleted(s.serverless); s.functions = 3 }, operatorv1alpha1.StateWarning, "",
			[]string{"Deleted False DeletionErr found 3 items with VersionKind serverless.kyma-project.io/v1alpha2"},
		},
		"its parts go": {
			func(s *scope) { isDeleted(s.serverless); s.removing = true }, operatorv1alpha1.StateDeleting, "",
			[]string{"Deleted Unknown Deletion Deleting module resources"},
		},
		"its parts are removed": {
			func(s *scope) { isDeleted(s.serverless); s.removing, s.removed = true, true }, operatorv1alpha1.StateDeleting, "",
			[]string{"Deleted True Deleted Serverless module deleted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := serverless("kyma-system", 1)
			s := &scope{serverless: &one, served: &one, allowed: true, namespaces: []string{"rouse-system"}}
			tc.change(s)
			setStatus(s, begin)
			require.Equal(t, tc.state, one.Status.State)
			require.Equal(t, tc.served, one.Status.Served)
			require.Equal(t, tc.want, shown(one.Status.Conditions, "Configured", "Installed", "DeploymentFailure", "Deleted"))
		})
	}
}

func shown(conditions []metav1.Condition, kinds ...string) []string {
	var all []string
	for _, kind := range kinds {
		if found := meta.FindStatusCondition(conditions, kind); found != nil {
			all = append(all, kind+" "+string(found.Status)+" "+found.Reason+" "+found.Message)
		}
	}
	return all
}

func TestDeploymentFailureIsRemovedOncePodsRun(t *testing.T) {
	t.Parallel()
	one := serverless("kyma-system", 1)
	s := &scope{serverless: &one, served: &one, allowed: true, settings: inForce()}
	s.deployment = deployment(condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "quota"))
	setStatus(s, begin)
	s.deployment = deployment(available, complete)
	setStatus(s, begin)
	require.Nil(t, meta.FindStatusCondition(one.Status.Conditions, "DeploymentFailure"))
	require.Equal(t, operatorv1alpha1.StateReady, one.Status.State)
}

func TestChangedValuesAndConditionsEmitEvents(t *testing.T) {
	t.Parallel()
	before, after := serverless("a", 1), serverless("a", 1)
	before.Status.LogLevel, after.Status.LogLevel = "info", "debug"
	before.Status.Conditions = []metav1.Condition{{Type: "Configured", Status: metav1.ConditionTrue, Reason: "Configured", Message: "Configuration ready"}}
	after.Status.Conditions = []metav1.Condition{
		{Type: "Configured", Status: metav1.ConditionTrue, Reason: "Configured", Message: "Configuration ready"},
		{Type: "Installed", Status: metav1.ConditionFalse, Reason: "InstallationErr", Message: "quota"},
		{Type: "DeploymentFailure", Status: metav1.ConditionTrue, Reason: "DeploymentReplicaFailure", Message: "Warning: quota"},
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "DeploymentReplicaFailure", Message: "Warning: quota"},
	}
	require.Equal(t, []notice{
		{"Normal", "Configuration", "Log level set from 'info' to 'debug'"},
		{"Warning", "InstallationErr", "quota"},
		{"Warning", "DeploymentReplicaFailure", "Warning: quota"},
	}, notices(&before.Status, &after.Status))
}

func TestTheEventOfADeletionThatWaitsForFunctionsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	before, after := serverless("a", 1, isDeleted), serverless("a", 1, isDeleted)
	setStatus(&scope{serverless: &after, served: &after, allowed: true, functions: 3}, begin)
	require.Equal(t, []notice{{
		"Warning", "DeletionErr", "found 3 items with VersionKind serverless.kyma-project.io/v1alpha2: delete these Functions first, " +
			"kubectl get functions -A lists them",
	}}, notices(&before.Status, &after.Status))
}

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
		"a value is invalid, and the previous settings stay": {
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
		"a part of another owner": {
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
		"Functions block its deletion": {
			func(s *scope) { isDeleted(s.serverless); s.functions = 3 },
			[]string{"Ready False DeletionErr found 3 items with VersionKind serverless.kyma-project.io/v1alpha2: delete these Functions first, " +
				"kubectl get functions -A lists them"},
		},
		"its parts are removed": {
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
