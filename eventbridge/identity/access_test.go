package identity

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestARightIsAskedForAsAVirtualResource(t *testing.T) {
	t.Parallel()
	const eventing = "eventing.kyma-project.io"
	for _, tc := range []struct {
		right    Right
		is       authorizationv1.ResourceAttributes
		text     string
		remedies []string
	}{
		{
			ListDeadLetters("shop"),
			authorizationv1.ResourceAttributes{Verb: "list", Group: "rouse.run", Resource: "deadletters", Namespace: "shop"},
			"list deadletters.rouse.run in namespace shop",
			[]string{"RoleBinding there to the ClusterRole view", "kubectl auth can-i --list -n shop"},
		},
		{
			GetDeadLetter("shop"),
			authorizationv1.ResourceAttributes{Verb: "get", Group: "rouse.run", Resource: "deadletters", Namespace: "shop"},
			"get deadletters.rouse.run in namespace shop",
			[]string{"ClusterRole edit"},
		},
		{
			Redrive("shop"),
			authorizationv1.ResourceAttributes{Verb: "create", Group: "rouse.run", Resource: "deadletters", Subresource: "redrive", Namespace: "shop"},
			"create deadletters.rouse.run/redrive in namespace shop",
			[]string{"ClusterRole edit"},
		},
		{
			Purge(""),
			authorizationv1.ResourceAttributes{Verb: "delete", Group: "rouse.run", Resource: "deadletters"},
			"delete deadletters.rouse.run in all namespaces",
			[]string{"name a namespace that is yours", "ClusterRoleBinding to the ClusterRole edit"},
		},
		{
			ListEvents(""),
			authorizationv1.ResourceAttributes{Verb: "list", Group: "rouse.run", Resource: "events"},
			"list events.rouse.run in all namespaces",
			[]string{"ClusterRole view"},
		},
		{
			WatchEvents("shop"),
			authorizationv1.ResourceAttributes{Verb: "watch", Group: "rouse.run", Resource: "events", Namespace: "shop"},
			"watch events.rouse.run in namespace shop",
			[]string{"ClusterRole view"},
		},
		{
			ListSubscriptions("shop"),
			authorizationv1.ResourceAttributes{Verb: "list", Group: eventing, Resource: "subscriptions", Namespace: "shop"},
			"list subscriptions.eventing.kyma-project.io in namespace shop",
			[]string{"ClusterRole view"},
		},
	} {
		user := authenticationv1.UserInfo{
			Username: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"all"}},
		}
		require.Equal(t, authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &tc.is, User: "alice", UID: "7", Groups: []string{"shop"},
			Extra: map[string]authorizationv1.ExtraValue{"scopes": {"all"}},
		}, tc.right.review(user))
		message := ForbiddenError{User: "alice", Right: tc.right}.Error()
		require.True(t, strings.HasPrefix(message, "alice may not "+tc.text+": "), message)
		for _, remedy := range tc.remedies {
			require.Contains(t, message, remedy)
		}
	}
}

func TestServiceAccountsOfANamespaceHaveOneShare(t *testing.T) {
	t.Parallel()
	require.Equal(t, ownerOf("system:serviceaccount:shop:a"), ownerOf("system:serviceaccount:shop:b"))
	require.NotEqual(t, ownerOf("system:serviceaccount:shop:a"), ownerOf("system:serviceaccount:bank:a"))
	require.NotEqual(t, ownerOf("alice"), ownerOf("bob"))
}

// What a token claims decides only which question is asked about it.
func TestATokenIsReviewedForTheAudienceThatItClaims(t *testing.T) {
	t.Parallel()
	jwt := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	}
	for token, want := range map[string]string{
		"opaque":                                 "",
		"a.b":                                    "",
		"a.%.c":                                  "",
		jwt(`no JSON`):                           "",
		jwt(`{}`):                                "",
		jwt(`{"aud":7}`):                         "",
		jwt(`{"aud":["https://kubernetes"]}`):    "",
		jwt(`{"aud":"rouse-eventbridge"}`):       "",
		jwt(`{"aud":"rouse-admin"}`):             Audience,
		jwt(`{"aud":["another","rouse-admin"]}`): Audience,
	} {
		require.Equal(t, want, audienceOf(token), token)
	}
}
