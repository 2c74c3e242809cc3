package migrate

import (
	"cmp"
	"fmt"

	"github.com/rouse-run/rouse/internal/migration"
)

// DecideBack returns the plan of the way back: events wait at consumers as Kyma makes them, and the Deployments of Functions are left to
// Kyma's controller, which adopts them by their labels.
func DecideBack(s *Survey) Plan {
	plan := Plan{Cluster: s.Cluster, Counts: countsOf(s), Refused: backRefusals(s)}
	eventing, stopped := backEventing(s)
	plan.Parts = []Part{eventing, backControllers(s, stopped), backFunctions(s), backOthers(s)}
	for _, part := range plan.Parts {
		plan.Counts.Changes += len(part.Items)
	}
	return plan
}

// backRefusals names what only Rouse has and is in use.
func backRefusals(s *Survey) []string {
	refused := controllersThatRun(s)
	if unread := cmp.Or(s.Unread, s.Uncounted); unread != "" {
		refused = append(refused, "the state of NATS cannot be read from an eventbridge: "+unread)
	}
	for _, used := range s.OnlyOurs {
		refused = append(refused, used.String())
	}
	if s.Delayed > 0 {
		refused = append(refused, fmt.Sprintf("%d events are due later: wait until they are published, or cancel them with rouse schedules", s.Delayed))
	}
	for i := range s.Functions {
		for _, field := range s.Functions[i].OnlyOurs {
			refused = append(refused, s.Functions[i].String()+" uses a feature that Kyma does not support: remove "+field)
		}
	}
	for i := range s.Subscriptions {
		sub := &s.Subscriptions[i]
		for _, field := range sub.OnlyOurs {
			refused = append(refused, sub.String()+" uses a feature that Kyma does not support: remove "+field)
		}
		if sub.Retries > 0 {
			refused = append(refused, fmt.Sprintf(
				"%s has %d events in retry: wait until they are delivered or dead letters", sub, sub.Retries))
		}
		if sub.DeadLetters > 0 {
			refused = append(refused, fmt.Sprintf("%s has %d dead letters: redrive or purge them with rouse deadletters", sub, sub.DeadLetters))
		}
	}
	return refused
}

// backEventing has the controller hand its consumers back.
func backEventing(s *Survey) (part Part, done bool) {
	part = Part{Name: "Subscriptions"}
	if order := (migration.Order{Direction: migration.ToKyma, Began: s.began()}); len(s.Subscriptions) > 0 && !s.isOrdered(order) {
		part.order(s, order, "requests the return of all consumers to Kyma", "")
	}
	for i := range s.Subscriptions {
		if sub := &s.Subscriptions[i]; sub.Consumer {
			part.wait(sub.Object, "returns to consumers of Kyma", "the controller of Rouse to return it")
		}
	}
	return part, len(part.Items) == 0
}

// backControllers stops Rouse's controllers, which would make their objects again.
func backControllers(s *Survey, handedOver bool) Part {
	part := Part{Name: "Controllers"}
	after := ""
	if !handedOver {
		after = "the Subscriptions"
	}
	for _, controller := range s.Release.Controllers {
		switch {
		case controller.Desired > 0:
			part.patch(controller.Object, "is scaled to 0", after, `{"spec":{"replicas":0}}`)
		case controller.Available > 0:
			part.wait(controller.Object, "stops", "its pods to terminate")
		}
		if controller.Desired+controller.Available > 0 && after == "" {
			after = controller.String() + " to stop"
		}
	}
	return part
}

// backFunctions takes away what would go on to scale Functions.
func backFunctions(s *Survey) Part {
	part := Part{Name: "Functions"}
	after := ""
	for _, controller := range s.Release.Controllers {
		if controller.Desired+controller.Available > 0 {
			after = "the controllers of Rouse to stop"
		}
	}
	for i := range s.Functions {
		fn := &s.Functions[i]
		if fn.Ours != nil && fn.Ours.Available == 0 && (fn.Replicas == nil || *fn.Replicas > 0) {
			part.wait(fn.Object, "keeps its Deployment "+fn.Ours.Name, "a pod of it to be ready")
		}
		for _, made := range fn.Made {
			part.remove(made, after)
		}
	}
	for _, slice := range s.Activators {
		part.remove(slice, after)
	}
	part.differ(Object{}, "Deployments stay: Kyma's controller adopts them in place, by their labels")
	return part
}

func backOthers(s *Survey) Part {
	part := Part{Name: "Publishers and APIRules"}
	if s.Publisher.Service != nil {
		part.differ(*s.Publisher.Service,
			"leads to the eventbridges until eventing-manager has made Kyma's publisher again. Let that happen before you uninstall Rouse")
	}
	if len(s.APIRules) > 0 {
		part.differ(Object{}, "APIRules are served by Rouse's gateways until their DNS leads to Kyma's again, "+
			"where its API gateway makes VirtualServices for them")
	}
	return part
}
