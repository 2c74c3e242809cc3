package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

func newFunctions(streams Streams) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "functions [FUNCTION]",
		Aliases: []string{"function", "fn"},
		Short:   "List Functions and their status, or explain the replicas of one",
		Long: `List Functions and their status.

With the name of a Function: its replicas, why it sleeps or why it does not, why it has no more replicas, and the events of each
Subscription that wait for it.`,
		Example: `  rouse functions
  rouse functions pricing
  rouse functions -n orders -o name
  rouse functions --context production -A`,
		Args: atMostOne,
	}
	s := ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.ValidArgsFunction = once(s.complete(functionNames))
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && all {
			return exit.Errorf(exit.Usage, "--all-namespaces lists Functions: leave it out, or %s", args[0])
		}
		return s.with(func(conn *target.Connection) error {
			if len(args) > 0 {
				return s.explainFunction(cmd.Context(), conn, args[0])
			}
			return s.listFunctions(cmd.Context(), conn, all)
		})
	}
	return cmd
}

func (s *session) listFunctions(ctx context.Context, conn *target.Connection, all bool) error {
	namespace := conn.Namespace
	if all {
		namespace = ""
	}
	s.reportProgress("looking for Functions in " + conn.Name)
	functions, err := conn.Functions(ctx, namespace)
	if err != nil {
		return err
	}
	exposed := conn.Exposed(ctx, namespace)
	for i := range functions {
		functions[i].Exposed = exposed[types.NamespacedName{Namespace: functions[i].Namespace, Name: functions[i].Name}]
	}
	s.endProgress()
	if written, err := writeList(s, functions, func(each target.Function) any { return each.Namespace + "/" + each.Name }); written {
		return err
	}
	if len(functions) == 0 {
		s.note("there are no Functions in %s", cmp.Or(namespace, conn.Name))
		return nil
	}
	return s.functionTable(functions, conn.Local)
}

func (s *session) functionTable(functions []target.Function, local bool) error {
	table := output.NewTable("NAMESPACE", "NAME", "STATE", "READY", "BACKLOG", "RUNTIME", "URL", "LAST ERROR")
	for _, f := range functions {
		backlog := "-"
		if f.Backlog != nil {
			backlog = strconv.FormatInt(*f.Backlog, 10)
		}
		lastError, _, _ := strings.Cut(f.LastError, "\n")
		table.Row(f.Namespace, s.style.Name(f.Name), s.phase(f.Phase), fmt.Sprintf("%d/%d", f.Ready, f.Desired), backlog,
			f.Runtime, reachableURL(&f, local), lastError)
	}
	return table.Flush(s.Out)
}

// reachableURL returns the URL at which the user can call the Function: in a cluster only at the host of an APIRule.
func reachableURL(f *target.Function, local bool) string {
	switch more := len(f.Exposed) - 1; {
	case more > 0:
		return fmt.Sprintf("%s (+%d)", f.Exposed[0], more)
	case more == 0:
		return f.Exposed[0]
	case local:
		return f.URL
	}
	return ""
}

func (s *session) phase(phase string) output.Styled {
	switch phase {
	case "ready":
		return s.style.Good(phase)
	case "failing":
		return s.style.Bad(phase)
	case "asleep":
		return s.style.Dim(phase)
	}
	return s.style.Busy(phase)
}

// writeList writes a list as data, or one name a line. It reports whether that is all, as the format is not text.
func writeList[T any](s *session, all []T, name func(T) any) (written bool, err error) {
	switch s.format.Chosen {
	case output.JSON, output.YAML:
		return true, output.Write(s.Out, s.format.Chosen, orEmpty(all))
	case output.Name:
		for _, each := range all {
			if _, err := fmt.Fprintln(s.Out, name(each)); err != nil {
				return true, err
			}
		}
		return true, nil
	case output.Text:
	}
	return false, nil
}

// orEmpty returns an empty list for nil, so that JSON has a list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// subscription is a row of the list.
type subscription struct {
	target.Subscription

	Backlog *backlog `json:"backlog,omitempty"` // nil when unknown
}

// backlog counts the pending events and the dead letters of a Subscription.
type backlog struct {
	Pending        uint64 `json:"pending"`
	InFlight       uint64 `json:"inFlight"`
	WaitingRetries uint64 `json:"waitingRetries"`
	DeadLetters    uint64 `json:"deadLetters"`
}

func newSubscriptions(streams Streams) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "subscriptions",
		Aliases: []string{"subscription", "subs"},
		Short:   "List Subscriptions and their backlogs",
		Long: `List Subscriptions: which events they take, where these go, and how many are pending, in flight (delivered, without an
answer yet), waiting for a retry, or dead letters.`,
		Example: `  rouse subscriptions
  rouse subscriptions -n orders -o json
  rouse subscriptions --context production -A`,
		Args: exactly(0, ""),
	}
	s := ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.with(func(conn *target.Connection) error { return s.listSubscriptions(cmd.Context(), conn, all) })
	}
	return cmd
}

func (s *session) listSubscriptions(ctx context.Context, conn *target.Connection, all bool) error {
	namespace := conn.Namespace
	if all {
		namespace = ""
	}
	s.reportProgress("looking for Subscriptions in " + conn.Name)
	found, err := conn.Subscriptions(ctx, namespace)
	if err != nil {
		return err
	}
	listed := make([]subscription, 0, len(found))
	for _, sub := range found {
		listed = append(listed, subscription{Subscription: sub})
	}
	if len(listed) > 0 && s.format.Chosen != output.Name {
		if err := s.tryBacklogs(ctx, conn, namespace, listed); err != nil {
			return err
		}
	}
	s.endProgress()
	return s.writeSubscriptions(listed, cmp.Or(namespace, conn.Name))
}

// tryBacklogs adds the backlogs, or writes a note when it cannot read them.
func (s *session) tryBacklogs(ctx context.Context, conn *target.Connection, namespace string, listed []subscription) error {
	err := fillBacklogs(ctx, conn, namespace, listed)
	if err != nil && ctx.Err() == nil {
		s.note("cannot read the backlogs: %s", output.Clean(err.Error()))
		return nil
	}
	return err
}

// fillBacklogs queries any bridge: all share the stream with the pending events.
func fillBacklogs(ctx context.Context, conn *target.Connection, namespace string, listed []subscription) error {
	client, err := bridgeOf(ctx, conn)
	if err != nil {
		return err
	}
	all, err := client.Work(ctx, namespace)
	if err != nil {
		return err
	}
	work := make(map[string]target.Work, len(all))
	for _, w := range all {
		work[w.Namespace+"/"+w.Name] = w
	}
	for i := range listed {
		w := work[listed[i].Namespace+"/"+listed[i].Name]
		listed[i].Backlog = &backlog{w.Backlog, w.AckPending, w.WaitingRetries, w.DeadLetters}
	}
	return nil
}

func (s *session) writeSubscriptions(listed []subscription, where string) error {
	if written, err := writeList(s, listed, func(each subscription) any { return each.Namespace + "/" + each.Name }); written {
		return err
	}
	if len(listed) == 0 {
		s.note("there are no Subscriptions in %s", where)
		return nil
	}
	return s.subscriptionTable(listed)
}

func (s *session) subscriptionTable(listed []subscription) error {
	table := output.NewTable("NAMESPACE", "NAME", "STATE", "SOURCE", "TYPES", "SINK", "PENDING", "IN FLIGHT", "RETRIES", "DEAD LETTERS", "MESSAGE")
	for _, sub := range listed {
		row := []any{
			sub.Namespace, s.style.Name(sub.Name), s.phase(sub.State), cmp.Or(sub.Source, "-"), briefTypes(sub.Types), cmp.Or(sub.Sink, "-"),
		}
		if b := sub.Backlog; b != nil {
			row = append(row, b.Pending, b.InFlight, b.WaitingRetries, b.DeadLetters)
		} else {
			row = append(row, "-", "-", "-", "-")
		}
		table.Row(append(row, sub.Message)...)
	}
	return table.Flush(s.Out)
}

// shownTypes bounds the types of a Subscription in the table; -o json has all.
const shownTypes = 3

func briefTypes(types []string) string {
	if over := len(types) - shownTypes; over > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(types[:shownTypes], ", "), over)
	}
	return strings.Join(types, ", ")
}
