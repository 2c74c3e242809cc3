package resources

import (
	rbacv1 "k8s.io/api/rbac/v1"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
)

func account(owner *operatorv1alpha1.Serverless) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(AccountName, owner.Namespace).WithLabels(objectLabels(owner))
}

// clusterBinding gives the account what the chart has granted to Function controllers, which is all that the operator may bind.
func clusterBinding(owner *operatorv1alpha1.Serverless, installation *Installation) *rbacv1ac.ClusterRoleBindingApplyConfiguration {
	return rbacv1ac.ClusterRoleBinding(installation.Binding).
		WithLabels(objectLabels(owner)).
		WithRoleRef(roleRef(installation.Roles.Functions)).
		WithSubjects(subject(owner))
}

func leaderBinding(owner *operatorv1alpha1.Serverless, installation *Installation) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(leaderBindingName, owner.Namespace).
		WithLabels(objectLabels(owner)).
		WithRoleRef(roleRef(installation.Roles.Leader)).
		WithSubjects(subject(owner))
}

func roleRef(name string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)
}

func subject(owner *operatorv1alpha1.Serverless) *rbacv1ac.SubjectApplyConfiguration {
	return rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(AccountName).WithNamespace(owner.Namespace)
}

// lease is the lock of the leader election, which its holders fill in. It is a part so that it goes with the others.
func lease(owner *operatorv1alpha1.Serverless) *coordinationv1ac.LeaseApplyConfiguration {
	return coordinationv1ac.Lease(LeaseName, owner.Namespace).WithLabels(objectLabels(owner))
}
