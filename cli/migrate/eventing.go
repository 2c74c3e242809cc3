package migrate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/migration"
)

const byController = "the controller of Rouse to take over"

// eventingPart has the controller take over from Kyma's consumers: only it may make and delete consumers.
func eventingPart(s *Survey) Part {
	part := Part{Name: "Subscriptions"}
	part.Needs = streamNeeds(s)
	after := ""
	if len(part.Needs) > 0 {
		after = "the release to have the settings of the stream"
	}
	known := map[string]*Subscription{}
	for i := range s.Subscriptions {
		known[s.Subscriptions[i].key()] = &s.Subscriptions[i]
	}
	abandoned := abandonedBy(s, known)
	order := migration.Order{Direction: migration.ToRouse, Abandoned: abandoned, Began: s.began()}
	if len(s.Subscriptions)+len(s.NATS.Consumers) > 0 && !s.isOrdered(order) {
		part.order(s, order, "requests the takeover of Kyma's consumers", after)
	}
	for _, consumer := range s.NATS.Consumers {
		object := Object{Kind: "Consumer", Name: consumer.Description}
		sub := known[subscriptionOf(consumer.Description)]
		switch {
		case sub == nil:
			part.wait(object, fmt.Sprintf("is deleted with %d events: its Subscription does not exist", consumer.Pending+consumer.AckPending), byController)
		case sub.Invalid:
			part.wait(object, "stays", "Subscription "+sub.key()+" to be valid: "+sub.Problem)
		default:
			part.wait(object, fmt.Sprintf("is replaced by a consumer that starts after sequence %d, with %d pending events", consumer.Settled,
				consumer.Pending+consumer.AckPending), byController)
		}
	}
	for i := range s.Subscriptions {
		if sub := &s.Subscriptions[i]; !sub.Consumer && !sub.Invalid {
			part.wait(sub.Object, "gets a consumer", byController)
		}
	}
	differEventing(&part, s)
	return part
}

// order adds an order for the controller.
func (p *Part) order(s *Survey, order migration.Order, change, after string) {
	object := Object{Kind: "ConfigMap", Namespace: s.Namespace, Name: migration.ConfigMap, resource: configMaps()}
	p.Items = append(p.Items, Item{Object: object, Change: change, After: after, do: func(ctx context.Context, objects *target.Objects) error {
		return writeOrder(ctx, objects, s.Namespace, order)
	}})
}

// upgrade is the command that changes values of the release, without the values.
func (s *Survey) upgrade() string {
	name := "RELEASE"
	if s.Release.Helm != "" {
		name = s.Release.Helm
	}
	return "helm upgrade " + name + " CHART -n " + s.Namespace + " --reuse-values "
}

// isOrdered reports whether the controller has been asked for the same.
func (s *Survey) isOrdered(order migration.Order) bool {
	missing := slices.ContainsFunc(order.Abandoned, func(name string) bool { return !slices.Contains(s.Order.Abandoned, name) })
	return s.Order.Direction == order.Direction && !missing
}

// abandonedBy names the consumers whose Subscriptions do not exist.
func abandonedBy(s *Survey, known map[string]*Subscription) []string {
	var names []string
	for _, consumer := range s.NATS.Consumers {
		if known[subscriptionOf(consumer.Description)] == nil {
			names = append(names, consumer.Name)
		}
	}
	return names[:min(len(names), migration.MaxAbandoned)]
}

// subscriptionOf is the namespace/name in the description of Kyma's consumer.
func subscriptionOf(description string) string {
	namespace, rest, _ := strings.Cut(description, "/")
	name, _, _ := strings.Cut(rest, "/")
	return namespace + "/" + name
}

// streamNeeds are the settings that the controller would change in the stream: those of the release have to be as it is.
func streamNeeds(s *Survey) []string {
	stream := s.NATS.Stream
	if stream.Name == "" {
		return nil
	}
	var set []string
	if s.Release.Flags["stream-replicas"] != strconv.Itoa(stream.Replicas) {
		set = append(set, "--set stream.replicas="+strconv.Itoa(stream.Replicas))
	}
	if bytes, err := resource.ParseQuantity(s.Release.Flags["stream-max-bytes"]); err != nil || bytes.Value() != stream.MaxBytes {
		set = append(set, "--set stream.maxBytes="+strconv.FormatInt(stream.MaxBytes, 10))
	}
	if s.Release.Flags["stream-max-msgs-per-subject"] != strconv.FormatInt(stream.MaxMsgsPerSubject, 10) {
		set = append(set, "--set stream.maxMessagesPerSubject="+strconv.FormatInt(stream.MaxMsgsPerSubject, 10))
	}
	if len(set) == 0 {
		return nil
	}
	return []string{"set the stream settings of the release to those of stream " + stream.Name + ", which would be changed otherwise: " + s.upgrade() + strings.Join(set, " ")}
}

func differEventing(part *Part, s *Survey) {
	stream := Object{Kind: "Stream", Name: s.NATS.Stream.Name}
	if s.NATS.Stream.Name != "" && len(s.NATS.Consumers) > 0 {
		if s.NATS.Stream.DropsOldest {
			part.differ(stream, "refuses events of a type that is full (507), where it dropped the oldest")
		}
		part.differ(stream, "stores an event with the same source, id and type once within "+s.Release.Flags["stream-duplicate-window"])
		part.differ(Object{}, "events that fail again and again become dead letters, where they stayed in the stream after 100 deliveries")
	}
	for i := range s.Subscriptions {
		sub := &s.Subscriptions[i]
		if sub.Types > 1 {
			part.differ(sub.Object, fmt.Sprintf("has one consumer for its %d types: maxInFlightMessages bounds them together", sub.Types))
		}
		if sub.Problem != "" {
			part.differ(sub.Object, "is not ready: "+sub.Problem)
		}
	}
}

// publisherPart leads publishers with Kyma's address to Rouse, at the same address of the Service, and then takes Kyma's publisher away.
func publisherPart(s *Survey) Part {
	part := Part{Name: "Publishers"}
	p := &s.Publisher
	switch {
	case p.Service == nil:
	case !p.Owned && s.Release.Helm != "":
		part.patch(*p.Service, "becomes part of the release", "", fmt.Sprintf(
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"},`+
				`"annotations":{"meta.helm.sh/release-name":%q,"meta.helm.sh/release-namespace":%q}}}`,
			s.Release.Helm, s.Namespace))
	case !s.Release.has("publisher-alias"):
		part.Needs = append(part.Needs, "enable Kyma's address for publishers in the release: "+s.upgrade()+"--set kyma.publisherAlias=true")
	}
	after := ""
	if p.Service != nil && !p.Aliased {
		after = "the endpoints of Rouse to be listed"
	}
	if p.Selects {
		// It would go with the Eventing that eventing-manager made it for.
		part.patch(*p.Service, "is routed to Rouse only", after, `{"metadata":{"ownerReferences":null},"spec":{"selector":null}}`)
		after = "the Service to be routed to Rouse only"
	}
	for _, stale := range p.Stale {
		part.remove(stale, after)
	}
	if len(p.Stale) > 0 {
		after = "its endpoints to be deleted"
	}
	if p.Workload != nil {
		part.remove(*p.Workload, after)
	}
	return part
}
