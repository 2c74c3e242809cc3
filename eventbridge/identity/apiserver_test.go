package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// tenant is a ServiceAccount that may list the dead letters of its namespace.
type tenant struct {
	env     *envtest.Environment
	account *corev1.ServiceAccount
	binding *rbacv1.RoleBinding
}

func newTenant(t *testing.T, env *envtest.Environment) tenant {
	t.Helper()
	namespace := env.Namespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "reader"}
	made := tenant{env, &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "reader"}},
	}}
	for _, object := range []client.Object{made.account, made.binding, &rbacv1.Role{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"rouse.run"}, Resources: []string{"deadletters"}, Verbs: []string{"list"}}},
	}} {
		require.NoError(t, env.Client.Create(t.Context(), object))
	}
	return made
}

func (o tenant) token(t *testing.T, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	require.NoError(t, o.env.Client.SubResource("token").Create(t.Context(), o.account, request))
	return request.Status.Token
}

func try(ctx context.Context, access identity.Access, token string, right identity.Right) error {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://admin/", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	user, err := access.Authenticate(r)
	if err != nil {
		return err
	}
	return access.Authorize(ctx, user, right)
}

func TestARealAPIServerKnowsWhoMayDoWhatWhere(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	own, other := newTenant(t, env), newTenant(t, env)
	access := identity.NewKubernetes(kube.ReviewsBy(env.Client), logr.Discard())
	namespace := own.account.Namespace
	for name, token := range map[string]string{
		"for the API server": own.token(t), "for the admin API alone": own.token(t, identity.Audience),
	} {
		// A binding takes a moment to be seen.
		require.Eventually(t, func() bool { return try(t.Context(), access, token, identity.ListDeadLetters(namespace)) == nil },
			time.Minute, 100*time.Millisecond, name)
		for _, refused := range []identity.Right{
			identity.ListDeadLetters(other.account.Namespace), identity.ListDeadLetters(""),
			identity.GetDeadLetter(namespace), identity.Redrive(namespace), identity.Purge(namespace),
			identity.ListEvents(namespace), identity.ListSubscriptions(namespace),
		} {
			err := try(t.Context(), access, token, refused)
			require.Equal(t, identity.ForbiddenError{User: "system:serviceaccount:" + namespace + ":reader", Right: refused}, err, name)
		}
	}
	for name, token := range map[string]string{
		"of publishers": own.token(t, "rouse-eventbridge"), "for another audience": own.token(t, "vault"),
		"made up": "x", "like a token": "e30.eyJhdWQiOiJyb3VzZS1hZG1pbiJ9.c2ln", "cut": own.token(t)[:100],
	} {
		require.ErrorIs(t, try(t.Context(), access, token, identity.ListDeadLetters(namespace)), identity.ErrUnauthenticated, name)
	}
}

func TestAWithdrawnRightAndADeletedAccountAreNoticed(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	bound, deleted := newTenant(t, env), newTenant(t, env)
	access := identity.NewKubernetes(kube.ReviewsBy(env.Client), logr.Discard())
	tokens := map[*tenant]string{&bound: bound.token(t), &deleted: deleted.token(t)}
	ask := func(o *tenant) error {
		return try(t.Context(), access, tokens[o], identity.ListDeadLetters(o.account.Namespace))
	}
	for o := range tokens {
		require.Eventually(t, func() bool { return ask(o) == nil }, time.Minute, 100*time.Millisecond)
	}
	require.NoError(t, env.Client.Delete(t.Context(), bound.binding))
	require.NoError(t, env.Client.Delete(t.Context(), deleted.account))
	require.Eventually(t, func() bool {
		_, forbidden := errors.AsType[identity.ForbiddenError](ask(&bound))
		return forbidden && errors.Is(ask(&deleted), identity.ErrUnauthenticated)
	}, 2*time.Minute, time.Second)
}

func TestAdminAPIRefusesEveryoneWithoutTheAPIServer(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	own := newTenant(t, env)
	token := own.token(t)
	powerless := rest.CopyConfig(env.Config)
	powerless.Impersonate.UserName = "nobody"
	for name, config := range map[string]*rest.Config{
		"nothing listens": {Host: "https://" + loopback.Address(t)}, "no permission to review": powerless,
	} {
		c, err := client.New(config, client.Options{Scheme: env.Client.Scheme(), Mapper: env.Client.RESTMapper()})
		require.NoError(t, err)
		access := identity.NewKubernetes(kube.ReviewsBy(c), logr.Discard())
		err = try(t.Context(), access, token, identity.ListDeadLetters(own.account.Namespace))
		require.ErrorIs(t, err, identity.ErrRightUndecided, name)
		require.NotContains(t, err.Error(), token)
	}
}
