package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// change is a redrive or a purge.
type change struct {
	*session
	scope

	verb  string // redrive or purge
	all   bool
	yes   bool
	apply func(*target.Client, context.Context, target.Selection) (target.Outcome, error)
}

func newRedrive(streams Streams) *cobra.Command {
	return newChange(streams, &change{verb: "redrive", apply: (*target.Client).Redrive}, `Deliver dead letters again`,
		`Give dead letters back to their Subscriptions, which deliver them anew with all their attempts. Correct first what made
them fail: what fails again is a dead letter again.`)
}

func newPurge(streams Streams) *cobra.Command {
	return newChange(streams, &change{verb: "purge", apply: (*target.Client).Purge}, `Delete dead letters`,
		`Delete dead letters. Their events are lost.`)
}

func newChange(streams Streams, c *change, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   c.verb + " {SEQUENCE... | --subscription NAME | --all}",
		Short: short,
		Long: long + `

Name them by their sequences, by their Subscription, or say --all for all of the namespace. --all asks first on a
terminal and needs --yes elsewhere.`,
		Example: strings.ReplaceAll(`  rouse dlq VERB 17 18
  rouse dlq VERB --subscription orders/pricing --reason AttemptsExhausted
  rouse dlq VERB --all --yes`, "VERB", c.verb),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	c.session = ask(streams, cmd, output.JSON, output.YAML)
	cmd.GroupID = ""
	c.bind(cmd)
	c.completeFlag(cmd, "subscription", fullSubscriptionNames)
	cmd.Flags().BoolVar(&c.all, "all", false, "all dead letters of the namespace")
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (c *change) run(ctx context.Context, args []string) error {
	sequences, err := sequencesOf(args)
	if err == nil {
		err = c.check(sequences)
	}
	if err != nil {
		return err
	}
	return c.with(func(conn *target.Connection) error {
		selections, err := c.selections(conn, sequences)
		if err != nil {
			return err
		}
		if err := c.confirm(conn, selections[0]); err != nil {
			return err
		}
		c.reportProgress("asking " + conn.Name + " to " + c.verb + " dead letters")
		client, err := bridgeOf(ctx, conn)
		if err != nil {
			return err
		}
		total, err := c.applyAll(ctx, client, selections)
		if err != nil || c.reason == "" || total.Redriven+total.Purged+total.Failed > 0 {
			return err
		}
		return c.noteReasons(ctx, c.session, client, selections[0])
	})
}

// check finds what is wrong with the selection before anything is asked.
func (c *change) check(sequences []uint64) error {
	switch {
	case len(sequences) > 0 && (c.all || c.subscription != "" || c.reason != ""):
		return exit.Errorf(exit.Usage, "sequences go with neither --all nor --subscription nor --reason: leave one out")
	case len(sequences) == 0 && !c.all && c.subscription == "":
		return exit.Errorf(exit.Usage, "nothing is selected: name sequences, --subscription, or --all; rouse dlq list shows what there is")
	}
	return c.scope.check()
}

func (c *change) selections(conn *target.Connection, sequences []uint64) ([]target.Selection, error) {
	if len(sequences) == 0 {
		selected, err := c.selection(c.session, conn)
		selected.All = c.all
		return []target.Selection{selected}, err
	}
	namespace, err := c.namespaceOf(conn, c.everywhere)
	selections := make([]target.Selection, len(sequences))
	for i, sequence := range sequences {
		selections[i] = target.Selection{Namespace: namespace, Sequence: sequence}
	}
	return selections, err
}

// confirm asks a person before everything is touched.
func (c *change) confirm(conn *target.Connection, selected target.Selection) error {
	if !selected.All || c.yes {
		return nil
	}
	what := "all dead letters of " + conn.Name
	if selected.Namespace != "" {
		what = "all dead letters of namespace " + selected.Namespace + " of " + conn.Name
	}
	if !c.isTyping() {
		return exit.Errorf(exit.Usage, "--all would %s %s: add --yes", c.verb, what)
	}
	_, _ = fmt.Fprintf(c.Err, "%s %s? [y/N] ", c.verb, what) // the answer is awaited all the same
	answer, _ := bufio.NewReader(c.In).ReadString('\n')      // the end of the input is a no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return exit.Errorf(exit.Failed, "nothing was done")
	}
	return nil
}

// applyAll prints how far it came, also when it ends early.
func (c *change) applyAll(ctx context.Context, client *target.Client, selections []target.Selection) (target.Outcome, error) {
	var total target.Outcome
	var failed error
	for _, selected := range selections {
		done, err := c.apply(client, ctx, selected)
		total.Redriven += done.Redriven
		total.Purged += done.Purged
		total.Failed += done.Failed
		total.Remaining = done.Remaining // each has what is left after it
		total.Problems = append(total.Problems, done.Problems...)
		if failed = missing(done, selected, err); failed != nil {
			break
		}
	}
	c.endProgress()
	if err := c.printOutcome(total); err != nil {
		return total, err
	}
	if failed == nil && total.Failed > 0 {
		failed = exit.Errorf(exit.Failed, "%d were not delivered again, they stay dead letters", total.Failed)
	}
	return total, failed
}

// missing is the error about what of a selection is not there: the dead letter, or the Subscription that is to get it.
func missing(done target.Outcome, selected target.Selection, err error) error {
	notFound := exit.CodeOf(err) == exit.NotFound
	switch nothing := done.Redriven+done.Purged+done.Failed == 0; {
	case selected.Sequence != 0 && nothing && (err == nil || notFound):
		return target.NoDeadLetter(selected.Namespace, selected.Sequence)
	case selected.Subscription != "" && notFound:
		return exit.Errorf(exit.NotFound, "Subscription %s/%s: %w", selected.Namespace, selected.Subscription, err)
	}
	return err
}

func (c *change) printOutcome(total target.Outcome) error {
	if !c.forPeople() {
		return output.Write(c.Out, c.format.Chosen, total)
	}
	text := fmt.Sprintf("purged %d", total.Purged)
	if c.verb == "redrive" {
		text = fmt.Sprintf("redriven %d, failed %d, remaining %d", total.Redriven, total.Failed, total.Remaining)
	}
	for _, problem := range total.Problems {
		c.note("%s", output.Clean(problem))
	}
	_, err := fmt.Fprintln(c.Out, text)
	return err
}

func sequencesOf(args []string) ([]uint64, error) {
	sequences := make([]uint64, 0, len(args))
	for _, arg := range args {
		sequence, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || sequence == 0 {
			return nil, exit.Errorf(exit.Usage, "%q is no sequence: use the numbers that rouse dlq list shows", arg)
		}
		sequences = append(sequences, sequence)
	}
	return sequences, nil
}
