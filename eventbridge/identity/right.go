package identity

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// The groups of resources that rights are on.
const (
	group         = "rouse.run" // virtual: no API server serves it
	groupEventing = "eventing.kyma-project.io"
)

// Right is what a request needs: a verb on a resource, in one namespace or, where that is empty, in all.
type Right struct {
	Verb, Group, Resource, Subresource string
	Namespace                          string
}

// ListSubscriptions shows what waits for Subscriptions. Their status says about as much, so that it is the right to list them.
func ListSubscriptions(namespace string) Right {
	return Right{Verb: "list", Group: groupEventing, Resource: "subscriptions", Namespace: namespace}
}

// ListDeadLetters shows them without their events.
func ListDeadLetters(namespace string) Right { return deadLetters("list", "", namespace) }

// GetDeadLetter shows one with its event.
func GetDeadLetter(namespace string) Right { return deadLetters("get", "", namespace) }

// Redrive delivers dead letters again.
func Redrive(namespace string) Right { return deadLetters("create", "redrive", namespace) }

// Purge deletes dead letters.
func Purge(namespace string) Right { return deadLetters("delete", "", namespace) }

// ListEvents shows what happened to events.
func ListEvents(namespace string) Right { return events("list", namespace) }

// WatchEvents follows it.
func WatchEvents(namespace string) Right { return events("watch", namespace) }

func deadLetters(verb, subresource, namespace string) Right {
	return Right{Verb: verb, Group: group, Resource: "deadletters", Subresource: subresource, Namespace: namespace}
}

func events(verb, namespace string) Right {
	return Right{Verb: verb, Group: group, Resource: "events", Namespace: namespace}
}

// String is for people: list deadletters.rouse.run in namespace orders.
func (r Right) String() string {
	resource := r.Resource + "." + r.Group
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace == "" {
		return r.Verb + " " + resource + " in all namespaces"
	}
	return r.Verb + " " + resource + " in namespace " + r.Namespace
}

// role is the one of Kubernetes that has the right, by the chart's roles that are aggregated into it.
func (r Right) role() string {
	if r.Verb == "list" || r.Verb == "watch" {
		return "view"
	}
	return "edit"
}

// remedy says what a user without the right can do. kubectl auth can-i knows virtual resources by --list alone.
func (r Right) remedy() string {
	if r.Namespace == "" {
		return "name a namespace that is yours, or ask for a ClusterRoleBinding to the ClusterRole " + r.role()
	}
	return "ask for a RoleBinding there to the ClusterRole " + r.role() +
		"; kubectl auth can-i --list -n " + r.Namespace + " shows what you may do"
}

// review asks whether a user has the right.
func (r Right) review(user authenticationv1.UserInfo) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		},
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
	}
}

// ownerOf is whose share of reviews a user takes: a tenant makes ServiceAccounts as many as it likes in its namespace.
func ownerOf(user string) string {
	const accounts = "system:serviceaccount:"
	if account, ok := strings.CutPrefix(user, accounts); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return accounts + namespace
	}
	return user
}
