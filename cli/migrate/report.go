package migrate

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/internal/migration"
)

// Print prints a plan for people.
func (p Plan) Print(w io.Writer) error {
	var text strings.Builder
	line := func(format string, args ...any) { text.WriteString(output.Clean(fmt.Sprintf(format, args...)) + "\n") }
	for _, refused := range p.Refused {
		line("first: %s", refused)
	}
	for _, part := range p.Parts {
		if len(part.Items)+len(part.Needs)+len(part.Differences) == 0 {
			continue
		}
		if text.Len() > 0 {
			line("")
		}
		line("%s", part.Name)
		for _, need := range part.Needs {
			line("  you:    %s", need)
		}
		for _, item := range part.Items {
			line("  change: %s", item)
		}
		for _, difference := range part.Differences {
			line("  differs: %s", difference)
		}
	}
	c := p.Counts
	line("")
	line("%s: functions=%d subscriptions=%d apirules=%d consumers=%d pending=%d changes=%d", p.Cluster, c.Functions, c.Subscriptions, c.APIRules,
		c.Consumers, c.Pending, c.Changes)
	_, err := io.WriteString(w, text.String())
	return err
}

// String describes the difference.
func (d Difference) String() string {
	if d.Object.Kind == "" {
		return d.What
	}
	return d.Object.String() + " " + d.What
}

// Status is how far a move is.
type Status struct {
	State string     `json:"state"` // not begun, under way, done, or handed back
	Began *time.Time `json:"began,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Left are the changes that are still to be made, and Needs the manual steps.
	Left  []string `json:"left,omitempty"`
	Needs []string `json:"needs,omitempty"`
}

// Status tells how far the move is that was begun last.
func (s *Survey) Status() Status {
	plan := Decide(s)
	if s.Order.Direction == migration.ToKyma {
		plan = DecideBack(s)
	}
	now, waits, needs, _ := plan.progress()
	status := Status{State: "not begun", Needs: append(plan.Refused, needs...), Left: waits}
	for _, item := range now {
		status.Left = append(status.Left, item.String())
	}
	if !s.Order.Began.IsZero() {
		status.State, status.Began, status.Ended = "under way", &s.Order.Began, s.Order.Ended
	}
	switch {
	case s.Order.Ended == nil:
	case s.Order.Direction == migration.ToKyma:
		status.State = "handed back to Kyma"
	default:
		status.State = "done"
	}
	return status
}

// Print prints it for people.
func (s Status) Print(w io.Writer) error {
	var text strings.Builder
	text.WriteString("migration: " + s.State)
	if s.Began != nil {
		text.WriteString(", begun " + s.Began.Format(time.RFC3339))
	}
	if s.Ended != nil {
		text.WriteString(", ended " + s.Ended.Format(time.RFC3339))
	}
	for _, need := range s.Needs {
		text.WriteString("\n  you:  " + output.Clean(need))
	}
	for _, left := range s.Left {
		text.WriteString("\n  left: " + output.Clean(left))
	}
	_, err := fmt.Fprintln(w, text.String())
	return err
}
