package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// description is all that is known of a Function.
type description struct {
	explained
	target.Details

	// Versions are those that a rollback can choose, Events those of Kubernetes.
	Versions []target.Version   `json:"versions,omitempty"`
	Events   []target.Happening `json:"events,omitempty"`
}

func newDescribe(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe function NAME",
		Short: "Show all that is known of a Function on one page",
		Long: `Show all that is known of a Function on one page: its state and replicas as functions NAME does, the conditions of its status, the
versions that rollback can choose, the Subscriptions that lead to it with the events that wait, and what Kubernetes has recorded.`,
		Example: `  rouse describe function pricing --context staging -n orders
  rouse describe function/pricing`,
		Args: cobra.ArbitraryArgs,
	}
	s := ask(streams, cmd, output.JSON, output.YAML)
	cmd.ValidArgsFunction = s.completeTyped(kindFunction, functionNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, name, err := typed(args, kindFunction)
		if err != nil {
			return err
		}
		return s.with(func(conn *target.Connection) error { return s.describe(cmd.Context(), conn, name) })
	}
	return cmd
}

// The types of objects that commands name as kubectl does.
const (
	kindFunction     = "function"
	kindSubscription = "subscription"
)

// aliases returns the names of a type.
func aliases(kind string) []string {
	if kind == kindFunction {
		return []string{kindFunction, "functions", "fn"}
	}
	return []string{kindSubscription, "subscriptions", "sub", "subs"}
}

// typed splits the arguments TYPE NAME, or TYPE/NAME, of one of the types.
func typed(args []string, kinds ...string) (kind, name string, err error) {
	word := ""
	switch len(args) {
	case 1:
		word, name, _ = strings.Cut(args[0], "/")
	case 2:
		word, name = args[0], args[1]
	}
	for _, each := range kinds {
		if slices.Contains(aliases(each), strings.ToLower(word)) && name != "" {
			return each, name, nil
		}
	}
	return "", "", exit.Errorf(exit.Usage, "name one object, as %s NAME", strings.Join(kinds, " NAME or "))
}

// completeTyped completes a type, and then the names of its objects.
func (s *session) completeTyped(kind string, names lookup) cobra.CompletionFunc {
	find := s.complete(names)
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return []string{kind}, cobra.ShellCompDirectiveNoFileComp
		case 1:
			return find(cmd, args, word)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (s *session) describe(ctx context.Context, conn *target.Connection, text string) error {
	function, err := s.findFunction(ctx, conn, text)
	if err != nil {
		return err
	}
	found := description{explained: function}
	if err := s.explain(ctx, conn, &found.explained); err != nil {
		return err
	}
	if !conn.Local {
		if err := s.addDetails(ctx, conn, &found); err != nil {
			return err
		}
	}
	s.endProgress()
	if s.format.Chosen != output.Text {
		return output.Write(s.Out, s.format.Chosen, found)
	}
	return s.writeDescription(&found, conn.Local)
}

// addDetails adds what the reader may see of a Function in a cluster, and notes what that is not.
func (s *session) addDetails(ctx context.Context, conn *target.Connection, found *description) error {
	objects, err := conn.Objects()
	if err != nil {
		return err
	}
	if found.Details, err = objects.Details(ctx, found.Namespace, found.Name); err != nil {
		return err
	}
	found.Versions, err = objects.Versions(ctx, found.Namespace, found.Name)
	if err := s.noteUnless(ctx, "versions", err); err != nil {
		return err
	}
	found.Events, err = objects.Happenings(ctx, found.Namespace, found.Name)
	return s.noteUnless(ctx, "events", err)
}

// maxHappenings bounds the events on the page.
const maxHappenings = 10

func (s *session) writeDescription(found *description, local bool) error {
	if err := s.writeExplained(&found.explained, local); err != nil {
		return err
	}
	now := time.Now()
	if len(found.Conditions) > 0 {
		if err := s.section("Conditions", s.conditionTable(found.Conditions, now)); err != nil {
			return err
		}
	}
	if len(found.Versions) > 0 {
		if err := s.section("Versions", versionTable(found.Details, found.Versions)); err != nil {
			return err
		}
	}
	if len(found.Events) == 0 {
		return nil
	}
	table := output.NewTable("LAST", "COUNT", "TYPE", "REASON", "MESSAGE")
	for _, event := range found.Events[:min(len(found.Events), maxHappenings)] {
		table.Row(ago(event.Last, now), event.Count, event.Type, event.Reason, event.Message)
	}
	return s.section("Events", table)
}

func (s *session) conditionTable(conditions []metav1.Condition, now time.Time) *output.Table {
	table := output.NewTable("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
	for _, each := range conditions {
		status := s.style.Busy(string(each.Status))
		switch bad := each.Type == "Stalled"; {
		case (each.Status == metav1.ConditionFalse) != bad && each.Status != metav1.ConditionUnknown:
			status = s.style.Bad(string(each.Status))
		case each.Status == metav1.ConditionTrue:
			status = s.style.Good(string(each.Status))
		}
		message, _, _ := strings.Cut(strings.TrimSpace(each.Message), "\n")
		table.Row(each.Type, status, ago(each.LastTransitionTime.Time, now), each.Reason, cmp.Or(message, "-"))
	}
	return table
}

// section writes a table below a title.
func (s *session) section(title string, table *output.Table) error {
	if _, err := fmt.Fprintf(s.Out, "\n%s\n", s.style.Dim(title)); err != nil {
		return err
	}
	return table.Flush(s.Out)
}
