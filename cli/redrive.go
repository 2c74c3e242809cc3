package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// change is a redrive or a purge command.
type change struct {
	*session
	scope

	verb  string // redrive or purge
	all   bool
	yes   bool
	edit  bool   // opens an editor
	data  string // replaces the data without one
	apply func(*target.Client, context.Context, target.Selection) (target.Outcome, error)
}

func newRedrive(streams Streams) *cobra.Command {
	c := &change{verb: "redrive", apply: (*target.Client).Redrive}
	cmd := newChange(streams, c, `Deliver dead letters again`,
		`Give dead letters back to their Subscriptions, which deliver them again with all their attempts. Correct first what made
them fail: what fails again is a dead letter again. With --edit one goes back with other data; its attributes stay.`)
	cmd.Flags().BoolVar(&c.edit, "edit", false, "edit the data of one dead letter first, with $VISUAL or $EDITOR")
	cmd.Flags().StringVarP(&c.data, "data", "d", "",
		"the data instead of those of one dead letter, as JSON; @FILE reads them from a file, @- from the input")
	cmd.Example += "\n  rouse dlq redrive 17 --edit"
	return cmd
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
		if c.edits() {
			return c.redriveEdited(ctx, conn, sequences[0])
		}
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
		total, err := c.applyAll(ctx, client, selections, c.among(conn, selections[0]))
		if err != nil || c.reason == "" || total.Redriven+total.Purged+total.Failed > 0 {
			return err
		}
		return c.noteReasons(ctx, c.session, client, selections[0])
	})
}

// check validates the selection before any request.
func (c *change) check(sequences []uint64) error {
	switch {
	case c.edits() && (len(sequences) != 1 || c.edit && c.data != ""):
		return exit.Errorf(exit.Usage, "--edit and --data are for one dead letter, and one of the two: name its sequence")
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

// among names what the change acts on: a Subscription or a namespace, and the local mode or the cluster.
func (c *change) among(conn *target.Connection, selected target.Selection) string {
	switch {
	case selected.Subscription != "":
		return "Subscription " + selected.Namespace + "/" + selected.Subscription + " of " + conn.Name
	case selected.Namespace != "":
		return "namespace " + selected.Namespace + " of " + conn.Name
	}
	return conn.Name
}

// confirm asks for confirmation before a change of all dead letters.
func (c *change) confirm(conn *target.Connection, selected target.Selection) error {
	if !selected.All || c.yes {
		return nil
	}
	what := "all dead letters of " + c.among(conn, selected)
	if !c.isTyping() {
		return exit.Errorf(exit.Usage, "--all would %s %s: add --yes", c.verb, what)
	}
	_, _ = fmt.Fprintf(c.Err, "%s %s? [y/N] ", c.verb, what) // the prompt is optional
	answer, _ := bufio.NewReader(c.In).ReadString('\n')      // the end of the input means no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return exit.Errorf(exit.Failed, "nothing was done")
	}
	return nil
}

// applyAll prints the progress, also when it ends early.
func (c *change) applyAll(
	ctx context.Context, client *target.Client, selections []target.Selection, among string,
) (target.Outcome, error) {
	var total target.Outcome
	var failed error
	for _, selected := range selections {
		done, err := c.apply(client, ctx, selected)
		total.Redriven += done.Redriven
		total.Purged += done.Purged
		total.Failed += done.Failed
		total.Remaining = done.Remaining // each response counts what remains
		total.Problems = append(total.Problems, done.Problems...)
		if failed = missing(done, selected, err); failed != nil {
			break
		}
	}
	c.endProgress()
	if err := c.printOutcome(total, among); err != nil {
		return total, err
	}
	if failed == nil && total.Failed > 0 {
		failed = exit.Errorf(exit.Failed, "%d were not delivered again, they stay dead letters", total.Failed)
	}
	return total, failed
}

// missing returns the error for a selected dead letter, or a Subscription, that does not exist.
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

func (c *change) printOutcome(total target.Outcome, among string) error {
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
	_, err := fmt.Fprintf(c.Out, "%s: %s\n", output.Clean(among), text)
	return err
}
