package migrate

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse/cli/target"
)

// Plan is what is to be done in a cluster, and what will differ.
type Plan struct {
	Cluster string `json:"cluster"`
	Counts  Counts `json:"counts"`
	// Refused is why nothing may be changed, each with what to do.
	Refused []string `json:"refused,omitempty"`
	Parts   []Part   `json:"parts"`
}

// Counts are what moves.
type Counts struct {
	Functions     int    `json:"functions"`
	Subscriptions int    `json:"subscriptions"`
	APIRules      int    `json:"apirules"`
	Consumers     int    `json:"consumers"` // of Kyma, that go
	Pending       uint64 `json:"pending"`   // events that wait at these
	Changes       int    `json:"changes"`   // objects that are changed or deleted
}

// Part is a part of the move, in the order in which they are done.
type Part struct {
	Name string `json:"name"`
	// Items are the changes.
	Items []Item `json:"items,omitempty"`
	// Needs are the manual steps.
	Needs []string `json:"needs,omitempty"`
	// Differences are what is otherwise than with Kyma, and stays so.
	Differences []Difference `json:"differences,omitempty"`
}

// Item is a change of one object.
type Item struct {
	Object Object `json:"object"`
	Change string `json:"change"`
	// After is what it waits for. Empty: it can be done now.
	After string `json:"after,omitempty"`

	// do makes the change; nil when another process does.
	do func(ctx context.Context, objects *target.Objects) error
}

// Difference is what is otherwise for one object, or for all when that has no kind.
type Difference struct {
	Object Object `json:"object,omitzero"`
	What   string `json:"what"`
}

// wait adds a change that another process makes.
func (p *Part) wait(object Object, change, after string) {
	p.Items = append(p.Items, Item{Object: object, Change: change, After: after})
}

const isDeleted = "is deleted"

// remove adds a deletion. after is what it waits for.
func (p *Part) remove(object Object, after string) {
	p.Items = append(p.Items, Item{Object: object, Change: isDeleted, After: after, do: func(ctx context.Context, objects *target.Objects) error {
		return objects.DeleteExactly(ctx, object.resource, object.Namespace, object.Name, object.UID)
	}})
}

// patch adds a change of fields.
func (p *Part) patch(object Object, change, after, patch string) {
	p.Items = append(p.Items, Item{Object: object, Change: change, After: after, do: func(ctx context.Context, objects *target.Objects) error {
		_, err := objects.Merge(ctx, object.resource, object.Namespace, object.Name, patch)
		return err
	}})
}

// differ adds a difference.
func (p *Part) differ(object Object, what string) {
	p.Differences = append(p.Differences, Difference{object, what})
}

// Decide returns the plan of the move to Rouse.
func Decide(s *Survey) Plan {
	plan := Plan{Cluster: s.Cluster, Refused: refusals(s), Parts: []Part{
		functionsPart(s), eventingPart(s), publisherPart(s), apiRulesPart(s), modulesPart(s), usersPart(s),
	}}
	plan.Counts = countsOf(s)
	for _, part := range plan.Parts {
		plan.Counts.Changes += len(part.Items)
	}
	return plan
}

func countsOf(s *Survey) Counts {
	counts := Counts{
		Functions: len(s.Functions), Subscriptions: len(s.Subscriptions), APIRules: len(s.APIRules), Consumers: len(s.NATS.Consumers),
	}
	for _, consumer := range s.NATS.Consumers {
		counts.Pending += consumer.Pending + consumer.AckPending
	}
	return counts
}

// modulesPart releases the resources by which Kyma's operators installed the modules.
func modulesPart(s *Survey) Part {
	part := Part{Name: "Modules"}
	for _, module := range s.Modules {
		switch {
		case module.Kind == kindNATS:
			part.differ(module.Object, "stays as it is: its servers keep the events, and go with it. Do not delete it while Rouse uses them")
		case module.Kind == kindServerless && s.Release.Operates:
			part.differ(module.Object, "is served by Rouse's operator from now on")
		case module.Finalizer:
			part.patch(module.Object, "is released from Kyma's finalizer, so that it can be deleted", "", module.released)
		}
	}
	return part
}

// usersPart lists the Secrets, rights, dashboards and alerts of Kyma's users with their counterparts in Rouse.
func usersPart(s *Survey) Part {
	part := Part{Name: "Secrets, rights, dashboards and alerts"}
	for _, relic := range s.Relics {
		part.differ(relic.Object, relic.Now)
	}
	return part
}

// refusals are why nothing may be changed.
func refusals(s *Survey) []string {
	refused := controllersThatRun(s)
	if !s.Release.Runs {
		refused = append(refused, "no controller of Rouse is ready in namespace "+s.Namespace+
			": install Rouse, or name its namespace with --rouse-namespace")
	}
	if s.Unread != "" {
		refused = append(refused, "the state of NATS cannot be read from an eventbridge: "+s.Unread)
	}
	for _, module := range s.Modules {
		if module.EventMesh {
			refused = append(refused, module.String()+" has backend EventMesh, whose events are not in NATS: switch spec.backend.type to NATS "+
				"and wait until the events in EventMesh are delivered")
		}
	}
	if bound := boundConsumers(s); bound > 0 {
		refused = append(refused, fmt.Sprintf("a client is bound to %d of Kyma's consumers: eventing-manager still runs somewhere, stop it", bound))
	}
	if s.Release.has("allow-eventing-manager") {
		refused = append(refused, "the release has kyma.allowEventingManager=true, with which consumers are not taken over: "+
			"set it to false with helm upgrade")
	}
	if s.Release.Runs && !s.Release.has("migration") {
		refused = append(refused, "the release in namespace "+s.Namespace+" is older than this command: upgrade it")
	}
	return refused
}

func controllersThatRun(s *Survey) []string {
	var refused []string
	for _, controller := range s.Controllers {
		refused = append(refused, controller.String()+" runs: "+controller.Effect+". Take its module out of Kyma's management and scale it to 0: "+
			"kubectl -n "+controller.Namespace+" scale deployment "+controller.Name+" --replicas=0")
	}
	return refused
}

func boundConsumers(s *Survey) int {
	bound := 0
	for _, consumer := range s.NATS.Consumers {
		if consumer.Bound {
			bound++
		}
	}
	return bound
}

// progress are the changes that can be made now, and what is waited for. blocked is true when all other changes wait for manual steps.
func (p *Plan) progress() (now []Item, waits, needs []string, blocked bool) {
	blocked = true
	for _, part := range p.Parts {
		needs = append(needs, part.Needs...)
		for _, item := range part.Items {
			if item.After == "" && item.do != nil {
				now = append(now, item)
				continue
			}
			waits = append(waits, item.String())
			blocked = blocked && len(part.Needs) > 0
		}
	}
	return now, waits, needs, blocked && len(needs) > 0
}

// String describes the change.
func (i Item) String() string {
	text := i.Object.String() + " " + i.Change
	if i.After != "" {
		text += ", waiting for " + i.After
	}
	return text
}
