package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// subscription is one as it is listed.
type subscription struct {
	target.Subscription

	Backlog *backlog `json:"backlog,omitempty"` // nil when it is not known
}

// backlog is what a Subscription has to do, and what it has given up.
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
		Short:   "List Subscriptions, and what waits for them",
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
		if err := fillBacklogs(ctx, conn, namespace, listed); err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.note("what waits for them is not known: %s", output.Clean(err.Error()))
		}
	}
	s.endProgress()
	return s.writeSubscriptions(listed, cmp.Or(namespace, conn.Name))
}

// fillBacklogs asks any bridge: what waits is in the stream that all share.
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
	switch s.format.Chosen {
	case output.JSON, output.YAML:
		return output.Write(s.Out, s.format.Chosen, listed)
	case output.Name:
		for _, sub := range listed {
			if _, err := fmt.Fprintf(s.Out, "%s/%s\n", sub.Namespace, sub.Name); err != nil {
				return err
			}
		}
		return nil
	case output.Text:
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

// shownTypes of a Subscription stand in the table; -o json has all.
const shownTypes = 3

func briefTypes(types []string) string {
	if over := len(types) - shownTypes; over > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(types[:shownTypes], ", "), over)
	}
	return strings.Join(types, ", ")
}
