package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/migration"
)

const (
	// pause is the time between two looks at a cluster in which nothing can be done now.
	pause = time.Second
	// settle is the time between other changes and the end of pods: nodes learn some time after the API server that a Service does not
	// list these any more.
	settle = 5 * time.Second
)

// Result is the outcome of a move.
type Result struct {
	Functions     int   `json:"functions"`
	Subscriptions int   `json:"subscriptions"`
	APIRules      int   `json:"apirules"`
	Leftovers     int   `json:"leftovers"` // objects of Kyma's that are still there
	Seconds       int64 `json:"seconds"`   // since the first start of the command
}

// Mover moves a cluster.
type Mover struct {
	Conn    *target.Connection
	Objects *target.Objects
	Options Options
	// Note is called after each change.
	Note func(change string)
	// Waiting is called with what the command waits for.
	Waiting func(text string)

	changed time.Time // the last change, or the start: a command that was killed may have made one just before
}

// Apply moves a cluster to Rouse, and continues a move that was interrupted.
func (m *Mover) Apply(ctx context.Context) (Result, error) {
	return m.move(ctx, Decide, migration.ToRouse)
}

// Back moves a cluster back to Kyma.
func (m *Mover) Back(ctx context.Context) (Result, error) {
	return m.move(ctx, DecideBack, migration.ToKyma)
}

func (m *Mover) move(ctx context.Context, decide func(*Survey) Plan, direction migration.Direction) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.Options.Timeout, errTimeout)
	defer cancel()
	m.Options.Ours, m.changed = direction == migration.ToKyma, time.Now()
	for first := true; ; first = false {
		s, err := Read(ctx, m.Conn, m.Objects, m.Options)
		if err != nil {
			return Result{}, err
		}
		if unread := s.unread(direction); !first && unread != "" { // bridges may restart meanwhile
			if err := m.wait(ctx, []string{"the state of NATS cannot be read from an eventbridge: " + unread}); err != nil {
				return Result{}, err
			}
			continue
		}
		done, err := m.step(ctx, s, decide(s))
		if err != nil {
			return Result{}, err
		}
		if done {
			return m.end(ctx, s, direction)
		}
	}
}

// unread is why a direction cannot be decided.
func (s *Survey) unread(direction migration.Direction) string {
	if direction == migration.ToKyma {
		return s.Unread + s.Uncounted
	}
	return s.Unread
}

// step does what can be done now, or waits for what others do. It reports whether there is nothing left.
func (m *Mover) step(ctx context.Context, s *Survey, plan Plan) (done bool, err error) {
	if len(plan.Refused) > 0 {
		return false, exit.Errorf(exit.Refused, "no further change is made until this is resolved:\n  %s", listed(plan.Refused))
	}
	if plan.Counts.Changes > 0 && (s.Order.Began.IsZero() || s.Order.Ended != nil) {
		return false, m.begin(ctx, s)
	}
	now, waits, needs, blocked := plan.progress()
	switch {
	case len(now) > 0:
		return false, m.doInTime(ctx, now)
	case len(waits)+len(needs) == 0:
		return true, nil
	case blocked:
		return false, exit.Errorf(exit.Refused, "all other changes are made. Do this, and run the command again:\n  %s", listed(needs))
	default:
		return false, m.wait(ctx, waits)
	}
}

// begin notes when the move has begun. What the controller was asked for before stays until it is asked again.
func (m *Mover) begin(ctx context.Context, s *Survey) error {
	order := s.Order
	order.Began, order.Ended = s.Now, nil
	return writeOrder(ctx, m.Objects, s.Namespace, order)
}

// doInTime makes changes, and those that end pods once nothing else has changed for some time.
func (m *Mover) doInTime(ctx context.Context, now []Item) error {
	var others []Item
	for _, item := range now {
		if !item.endsPods() {
			others = append(others, item)
		}
	}
	if len(others) > 0 {
		return m.do(ctx, others)
	}
	if rest := time.Until(m.changed.Add(settle)); rest > 0 {
		return sleep(ctx, rest) // the cluster is read again before its pods end
	}
	return m.do(ctx, now)
}

// endsPods reports whether a change deletes a Deployment.
func (i Item) endsPods() bool { return i.Object.resource == deployments() && i.Change == isDeleted }

// do makes changes. An object that somebody has changed meanwhile is looked at again.
func (m *Mover) do(ctx context.Context, items []Item) error {
	for _, item := range items {
		err := item.do(ctx, m.Objects)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
		if !item.endsPods() {
			m.changed = time.Now()
		}
		m.Note(item.String())
	}
	return nil
}

var errTimeout = errors.New("timed out")

func (m *Mover) wait(ctx context.Context, waits []string) error {
	m.Waiting(fmt.Sprintf("%s (%d of these)", waits[0], len(waits)))
	if err := sleep(ctx, pause); err != nil {
		return exit.Errorf(exit.Failed, "%w, run the command again. Still missing:\n  %s", err, listed(waits))
	}
	return nil
}

// sleep returns after d, or why ctx has ended before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// maxNamed bounds how many objects an error names.
const maxNamed = 20

// listed has a line for each text. Tenants write what conditions of their objects say.
func listed(texts []string) string {
	var lines []string
	for _, text := range texts[:min(len(texts), maxNamed)] {
		lines = append(lines, output.Clean(text))
	}
	if more := len(texts) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n  ")
}

// end notes that everything is done.
func (m *Mover) end(ctx context.Context, s *Survey, direction migration.Direction) (Result, error) {
	if s.Order.Ended == nil || s.Order.Direction != direction {
		s.Order.Direction, s.Order.Began, s.Order.Ended = direction, s.began(), &s.Now
		if err := writeOrder(ctx, m.Objects, s.Namespace, s.Order); err != nil {
			return Result{}, err
		}
	}
	result := Result{Functions: len(s.Functions), Subscriptions: len(s.Subscriptions), APIRules: len(s.APIRules)}
	if direction == migration.ToRouse {
		result.Leftovers = s.leftovers()
	}
	result.Seconds = int64(s.Order.Ended.Sub(s.Order.Began).Seconds())
	return result, nil
}

// leftovers counts the objects of Kyma's that Rouse replaces.
func (s *Survey) leftovers() int {
	left := len(s.NATS.Consumers) + len(s.Publisher.Stale)
	if s.Publisher.Workload != nil {
		left++
	}
	for i := range s.Functions {
		left += len(s.Functions[i].Old) + len(s.Functions[i].Rest)
	}
	for i := range s.APIRules {
		left += len(s.APIRules[i].Rest)
	}
	return left
}

// writeOrder writes the ConfigMap that the controller follows.
func writeOrder(ctx context.Context, objects *target.Objects, namespace string, order migration.Order) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": namespace, "name": migration.ConfigMap},
		"data":     map[string]any{migration.Key: order.String()},
	}}
	_, err := objects.Apply(ctx, configMaps(), object, false, true)
	return err
}
