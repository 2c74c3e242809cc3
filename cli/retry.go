package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// retried is what became of the waiting events of a Subscription.
type retried struct {
	Namespace    string `json:"namespace"`
	Subscription string `json:"subscription"`

	target.Retried
}

func newRetry(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry (subscription|function) NAME",
		Short: "Deliver the events now that wait for their next attempt",
		Long: `retry ends the wait of events whose delivery has failed, of one Subscription or of all that lead to a Function: they are delivered now,
and that counts as an attempt. An event that would be delivered within two seconds anyway is left alone. One call takes up to 1,000 events.

What fails again waits again, or becomes a dead letter after its last attempt: mend first what made it fail. Dead letters are delivered
by "rouse dlq redrive".`,
		Example: `  rouse retry subscription pricing
  rouse retry function pricing --context staging -n orders`,
		Args: cobra.ArbitraryArgs,
	}
	s := ask(streams, cmd, output.JSON, output.YAML)
	cmd.ValidArgsFunction = s.completeTyped(kindSubscription, subscriptionNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, name, err := typed(args, kindSubscription, kindFunction)
		if err != nil {
			return err
		}
		return s.with(func(conn *target.Connection) error {
			subs, err := s.subscriptionsOf(cmd.Context(), conn, kind, name)
			if err != nil {
				return err
			}
			return s.retryNow(cmd.Context(), conn, subs)
		})
	}
	return cmd
}

func (s *session) retryNow(ctx context.Context, conn *target.Connection, subs []target.Subscription) error {
	s.reportProgress("asking " + conn.Name + " to deliver what waits")
	client, err := bridgeOf(ctx, conn)
	if err != nil {
		return err
	}
	var results []retried
	var failed uint64
	for _, sub := range subs {
		var done target.Retried
		if done, err = client.RetryNow(ctx, sub.Namespace, sub.Name); err != nil {
			break
		}
		failed += done.Failed
		results = append(results, retried{sub.Namespace, sub.Name, done})
	}
	s.endProgress()
	if written := s.printRetried(results); written != nil {
		return written
	}
	if err == nil && failed > 0 {
		err = exit.Errorf(exit.Failed, "%d were not delivered, they wait on", failed)
	}
	return err
}

func (s *session) printRetried(results []retried) error {
	if !s.forPeople() {
		return output.Write(s.Out, s.format.Chosen, results)
	}
	for _, each := range results {
		for _, problem := range each.Problems {
			s.note("%s", output.Clean(problem))
		}
		if _, err := fmt.Fprintf(s.Out, "subscription/%s: retried %d, failed %d, %d wait on\n",
			each.Subscription, each.Retried.Retried, each.Failed, each.Remaining); err != nil {
			return err
		}
	}
	return nil
}
