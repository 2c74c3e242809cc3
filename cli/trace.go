package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/cli/trace"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// chainPollInterval is how often a chain that moves is checked.
const chainPollInterval = 300 * time.Millisecond

func newTrace(streams Streams) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "trace EVENT-ID",
		Short: "Show the whole chain of an event as a tree",
		Long: `Show the chain that an event belongs to: what was published first, to whom it was delivered, with which tries, and the
events that came of it. Bridges remember their last events only.`,
		Example: `  rouse trace 1001
  rouse trace $(rouse publish --type order.received --source shop -d '{}') --wait 30s
  rouse trace 1001 -o json | jq .deliveries`,
		Args: exactly(1, "the id of an event"),
	}
	s := ask(streams, cmd, output.JSON, output.YAML)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait so long for the chain to come to rest")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.with(func(conn *target.Connection) error {
			s.reportProgress("asking " + conn.Name + " for event " + args[0])
			admins, err := conn.Admins(cmd.Context())
			if err != nil {
				return err
			}
			asked := target.Wanted{Since: -1, Within: conn.Namespace, Note: s.noteOnce()}
			root, atRest, err := s.chain(cmd.Context(), admins, asked, args[0], wait)
			if err != nil {
				return err
			}
			s.endProgress()
			if err := s.writeTree(root); err != nil {
				return err
			}
			if wait > 0 && !atRest {
				return exit.Errorf(exit.Failed, "the chain is not at rest after %s; raise --wait", wait)
			}
			return nil
		})
	}
	return cmd
}

func (s *session) writeTree(root trace.Node) error {
	if !s.forPeople() {
		return output.Write(s.Out, s.format.Chosen, root)
	}
	_, err := fmt.Fprint(s.Out, trace.Text(root))
	return err
}

// chain asks until the chain is at rest, or as long as it may.
func (s *session) chain(
	ctx context.Context, admins []target.Admin, asked target.Wanted, id string, wait time.Duration,
) (root trace.Node, atRest bool, err error) {
	deadline := time.Now().Add(wait)
	for {
		idle, err := target.New(admins[0]).Idle(ctx, asked.Within) // before the records: what is delivered in between is in them
		if err != nil {
			return root, false, err
		}
		records, err := chainRecords(ctx, admins, asked, id)
		if err != nil {
			return root, false, err
		}
		root, err = trace.Tree(records, id)
		unknown := errors.Is(err, trace.ErrUnknown)
		switch atRest = err == nil && idle && !moves(root); {
		case atRest:
			return root, true, nil
		case time.Now().After(deadline):
			if unknown {
				err = exit.With(exit.NotFound, err)
			}
			return root, false, err
		}
		s.reportProgress("waiting for the chain of " + id + " to come to rest")
		select {
		case <-ctx.Done():
			return root, false, ctx.Err()
		case <-time.After(chainPollInterval):
		}
	}
}

// chainRecords are those of the event and of all that have its trace.
func chainRecords(ctx context.Context, admins []target.Admin, asked target.Wanted, id string) ([]journal.Record, error) {
	ofEvent, ofCause := asked, asked
	ofEvent.ID, ofCause.Cause = id, id
	records, err := target.Recent(ctx, admins, ofEvent)
	if err != nil {
		return nil, err
	}
	caused, err := target.Recent(ctx, admins, ofCause)
	if err != nil {
		return nil, err
	}
	var traces []string
	for _, r := range append(slices.Clone(records), caused...) {
		if r.Trace != "" && !slices.Contains(traces, r.Trace) {
			traces = append(traces, r.Trace)
		}
	}
	if len(traces) == 0 {
		return append(records, caused...), nil
	}
	var all []journal.Record
	for _, id := range traces {
		ofTrace := asked
		ofTrace.Trace = id
		of, err := target.Recent(ctx, admins, ofTrace)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// moves reports whether an event of the tree is in flight.
func moves(n trace.Node) bool {
	if slices.ContainsFunc(n.Children, moves) {
		return true
	}
	return slices.ContainsFunc(n.Deliveries, func(d trace.Delivery) bool {
		return d.State.Pending() || slices.ContainsFunc(d.Children, moves)
	})
}
