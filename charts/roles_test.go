package charts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	readVerbs  = "get list watch"
	writeVerbs = "create update patch delete deletecollection"
)

// userRights lists the permissions of the roles view and edit in a namespace; all others are denied.
var userRights = []struct{ group, resource, view, edit string }{
	{"serverless.kyma-project.io", "functions", readVerbs, readVerbs + " " + writeVerbs},
	{"serverless.kyma-project.io", "functions/status", "get", "get"},
	{"serverless.kyma-project.io", "functions/scale", "get", "get update patch"},
	{"serverless.kyma-project.io", "functions/finalizers", "", ""},
	{"serverless.kyma-project.io", "gitrepositories", readVerbs, readVerbs + " " + writeVerbs},
	{"eventing.kyma-project.io", "subscriptions", readVerbs, readVerbs + " " + writeVerbs},
	{"eventing.kyma-project.io", "subscriptions/status", "get", "get"},
	{"eventing.kyma-project.io", "subscriptions/finalizers", "", ""},
	{"gateway.kyma-project.io", "apirules", readVerbs, readVerbs + " " + writeVerbs},
	{"gateway.kyma-project.io", "apirules/status", "get", "get"},
	{"operator.kyma-project.io", "serverlesses", readVerbs, readVerbs},
	{"operator.kyma-project.io", "serverlesses/status", "get", "get"},
	{"operator.kyma-project.io", "serverlesses/finalizers", "", ""},
}

func TestRolesGrantUsersTheirPermissionsInANamespace(t *testing.T) {
	env := cluster.Environment(t)
	const own, other = "team-of-roles", "team-of-others"
	createNamespace(t, env, own)
	createNamespace(t, env, other)
	all := render(t, values{"apiRules.enabled=true", "functions.v1alpha1.enabled=true", "operator.enabled=true"})
	for _, name := range []string{"rouse-view", "rouse-edit"} {
		create(t, env, named[*rbacv1.ClusterRole](t, all, name))
	}
	for _, name := range []string{"view", "edit", "admin"} {
		aggregate(t, env, name)
	}

	view := func(i int) string { return userRights[i].view }
	edit := func(i int) string { return userRights[i].edit }
	none := func(int) string { return "" }
	for user, tc := range map[string]struct {
		role string
		want func(int) string
	}{
		"viewer":               {"view", view},
		"editor":               {"edit", edit},
		"administrator":        {"admin", edit},
		"viewer-of-rouse-only": {"rouse-view", view},
		"editor-of-rouse-only": {"rouse-edit", edit},
		"stranger":             {"", none},
	} {
		t.Run(user, func(t *testing.T) {
			if tc.role != "" {
				create(t, env, &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: user},
					RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tc.role},
					Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
				})
				require.Eventually(t, func() bool {
					return slices.Contains(allowed(t, env, user, own, "serverless.kyma-project.io", "functions"), "get")
				}, time.Minute, 50*time.Millisecond, "the API server learns of the role and its binding")
			}
			for i, right := range userRights {
				require.ElementsMatch(t, strings.Fields(tc.want(i)), allowed(t, env, user, own, right.group, right.resource), right.resource)
				require.Empty(t, allowed(t, env, user, other, right.group, right.resource), "%s of another namespace", right.resource)
			}
		})
	}
}

// Where Kyma serves APIRules its roles determine who may write them.
func TestRolesOmitResourcesThatTheReleaseDoesNotServe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rouse-view", "rouse-edit"} {
		for _, rule := range named[*rbacv1.ClusterRole](t, render(t, nil), name).Rules {
			require.NotContains(t, rule.APIGroups, "gateway.kyma-project.io", name)
			require.NotContains(t, rule.APIGroups, "operator.kyma-project.io", name)
		}
	}
}

// allowed returns the verbs that a user may use on a resource.
func allowed(t *testing.T, env *envtest.Environment, user, in, group, resource string) []string {
	t.Helper()
	var verbs []string
	resource, subresource, _ := strings.Cut(resource, "/")
	for verb := range strings.FieldsSeq(readVerbs + " " + writeVerbs) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: in, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
			},
		}}
		require.NoError(t, env.Client.Create(t.Context(), review))
		if review.Status.Allowed {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

// aggregate fills a role with the rules of those that its rule selects, as the controller manager would.
func aggregate(t *testing.T, env *envtest.Environment, name string) {
	t.Helper()
	role, roles := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, role))
	require.NoError(t, env.Client.List(t.Context(), roles))
	require.NotNil(t, role.AggregationRule)
	role.Rules = nil
	for _, wanted := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&wanted)
		require.NoError(t, err)
		for _, part := range roles.Items {
			if selector.Matches(labels.Set(part.Labels)) {
				role.Rules = append(role.Rules, part.Rules...)
			}
		}
	}
	require.NoError(t, env.Client.Update(t.Context(), role))
}

// create creates an object until the end of the test.
func create(t *testing.T, env *envtest.Environment, object client.Object) {
	t.Helper()
	require.NoError(t, env.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), object))
	})
}
