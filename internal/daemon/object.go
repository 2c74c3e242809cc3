package daemon

import (
	"fmt"
	"strings"
)

// Kinds of objects that lines are about.
const (
	Function     = "Function"
	Subscription = "Subscription"
)

// Object is a Function or a Subscription.
type Object struct{ Kind, Namespace, Name string }

// objectsOf finds what the values of a logger say its lines are about: subscription and service (of a Function, which has its
// name) as namespace/name, function beside namespace, and what controller-runtime says of the object that is reconciled.
func objectsOf(values []any) []Object {
	var found []Object
	add := func(kind, key string) {
		text, _ := valueOf(values, key)
		namespace, name, ok := strings.Cut(text, "/")
		if !ok && key == "function" {
			name = text
			namespace, ok = valueOf(values, "namespace")
		}
		if ok && name != "" {
			found = append(found, Object{kind, namespace, name})
		}
	}
	add(Subscription, "subscription")
	add(Subscription, "Subscription")
	add(Function, "service")
	add(Function, "function")
	add(Function, "Function")
	return found
}

// valueOf is the last value of a key, as a text.
func valueOf(pairs []any, key string) (text string, ok bool) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != key {
			continue
		}
		switch value := pairs[i+1].(type) {
		case string:
			text, ok = value, true
		case fmt.Stringer:
			text, ok = value.String(), true
		}
	}
	return text, ok
}
