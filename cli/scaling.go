package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kedarules"
)

// explained is a Function with the reasons for its number of replicas.
type explained struct {
	target.Function

	// Scaling is nil when it is unknown.
	Scaling       *kedarules.Status       `json:"scaling,omitempty"`
	Why           []kedarules.Explanation `json:"why,omitempty"`
	LastWake      *activation.Wake        `json:"lastWake,omitempty"`
	Subscriptions []subscription          `json:"subscriptions"`
}

// findFunction finds the Function that an argument names, to be explained.
func (s *session) findFunction(ctx context.Context, conn *target.Connection, text string) (explained, error) {
	namespace, name, err := s.function(conn, text)
	if err != nil {
		return explained{}, err
	}
	s.reportProgress("looking for the Function in " + conn.Name)
	fn, err := conn.Find(ctx, namespace, name)
	return explained{Function: fn, Subscriptions: []subscription{}}, err
}

func (s *session) explainFunction(ctx context.Context, conn *target.Connection, text string) error {
	found, err := s.findFunction(ctx, conn, text)
	if err != nil {
		return err
	}
	if s.format.Chosen != output.Name {
		if err := s.explain(ctx, conn, &found); err != nil {
			return err
		}
	}
	s.endProgress()
	switch s.format.Chosen {
	case output.JSON, output.YAML:
		return output.Write(s.Out, s.format.Chosen, found)
	case output.Name:
		_, err := fmt.Fprintf(s.Out, "%s/%s\n", found.Namespace, found.Name)
		return err
	case output.Text:
	}
	return s.writeExplained(&found, conn.Local)
}

// explain adds what the reader may see, and notes what that is not.
func (s *session) explain(ctx context.Context, conn *target.Connection, found *explained) (err error) {
	found.Exposed = conn.Exposed(ctx, found.Namespace)[types.NamespacedName{Namespace: found.Namespace, Name: found.Name}]
	all, err := conn.Subscriptions(ctx, found.Namespace)
	if err = s.noteUnless(ctx, "Subscriptions", err); err != nil {
		return err
	}
	for _, sub := range all {
		if sub.LeadsTo(&found.Function) {
			found.Subscriptions = append(found.Subscriptions, subscription{Subscription: sub})
		}
	}
	if len(found.Subscriptions) > 0 {
		if err := s.tryBacklogs(ctx, conn, found.Namespace, found.Subscriptions); err != nil {
			return err
		}
	}
	found.Scaling, err = conn.Scaling(ctx, found.Namespace, found.Name)
	if err = s.noteUnless(ctx, "replicas", err); err != nil || found.Scaling == nil {
		return err
	}
	found.addEvents()
	found.Why = found.Scaling.Explain(time.Now())
	if found.Scaling.Max == 0 { // it never sleeps
		return nil
	}
	found.LastWake, err = lastWake(ctx, conn, found.Namespace, found.Name)
	return s.noteUnless(ctx, "last wake", err)
}

// lastWake asks all bridges: each knows those since it started.
func lastWake(ctx context.Context, conn *target.Connection, namespace, name string) (last *activation.Wake, err error) {
	admins, err := conn.Admins(ctx)
	for _, admin := range admins {
		wake, failed := target.New(admin).LastWake(ctx, namespace, name)
		if err = failed; err != nil {
			break
		}
		if wake != nil && (last == nil || wake.Began.After(last.Began)) {
			last = wake
		}
	}
	return last, err
}

// noteUnless writes a note about what cannot be read, so that the rest is shown. It returns the error of a command that was stopped.
func (s *session) noteUnless(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	s.note("cannot read the %s: %s", what, output.Clean(err.Error()))
	return nil
}

// addEvents adds the events of all Subscriptions to the status, when they are known.
func (e *explained) addEvents() {
	var waiting, retrying uint64
	for _, sub := range e.Subscriptions {
		if sub.Backlog == nil {
			return
		}
		if sub.State == target.StatePaused { // its events wake nothing
			continue
		}
		waiting += sub.Backlog.Pending + sub.Backlog.InFlight + sub.Backlog.WaitingRetries
		retrying += sub.Backlog.WaitingRetries
	}
	e.Scaling.Waiting, e.Scaling.Retrying = &waiting, retrying
}

func (s *session) writeExplained(found *explained, local bool) error {
	lines := output.NewTable("", "") // written without its header
	lines.Row("function", s.style.Name(found.Namespace+"/"+found.Name))
	lines.Row("state", s.phase(found.Phase))
	lines.Row("runtime", found.Runtime)
	if url := reachableURL(&found.Function, local); url != "" {
		lines.Row("url", url)
	}
	if found.LastError != "" {
		lines.Row("last error", found.LastError)
	}
	if status := found.Scaling; status != nil {
		lines.Row("replicas", shownReplicas(status))
		for _, each := range found.Why {
			lines.Row(each.Question, each.Answer)
		}
		if status.CooldownSeconds > 0 {
			lines.Row("cooldown", time.Duration(status.CooldownSeconds)*time.Second)
		}
		if status.LastActive != nil {
			lines.Row("last work", status.LastActive.Local().Format(time.DateTime))
		}
	}
	if found.LastWake != nil {
		writeWake(lines.Row, found.LastWake)
	}
	if err := lines.FlushRows(s.Out); err != nil || len(found.Subscriptions) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(s.Out); err != nil {
		return err
	}
	return s.subscriptionTable(found.Subscriptions)
}

func shownReplicas(status *kedarules.Status) string {
	text := fmt.Sprintf("%d, of which %d ready", status.Replicas, status.Ready)
	if status.Max > 0 {
		text += fmt.Sprintf("; minReplicas %d, maxReplicas %d", status.Min, status.Max)
	}
	return text
}

// widestBar is the width of the bar of a whole wake.
const widestBar = 40

// writeWake writes the stages of a wake, with a bar for how long each lasted.
func writeWake(row func(cells ...any), wake *activation.Wake) {
	cause := map[string]string{
		activation.WokenByPublish: "an event", activation.WokenByPoll: "events that were found waiting", activation.WokenByRequest: "an HTTP request",
	}[wake.Cause]
	row("last wake", fmt.Sprintf("%s by %s", wake.Began.Local().Format(time.DateTime), cause))
	before := int64(0)
	for _, stage := range []struct {
		name string
		at   int64
	}{{"KEDA told", wake.SentMS}, {"pod addressed", wake.AddressedMS}, {"pod ready", wake.ReadyMS}} {
		if stage.at == 0 {
			continue
		}
		row("  "+stage.name, fmt.Sprintf("%6d ms  %s", stage.at, bar(before, stage.at, wake.ReadyMS)))
		before = stage.at
	}
}

// bar shows a part of a whole.
func bar(from, to, whole int64) string {
	column := func(at int64) int { return int(min(max(at, 0), whole) * widestBar / max(whole, 1)) }
	return strings.Repeat(" ", column(from)) + strings.Repeat("#", max(column(to)-column(from), 1))
}
