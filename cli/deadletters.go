package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/failure"
)

func newDeadLetters(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dlq",
		Aliases: []string{"deadletters"},
		GroupID: groupAsk,
		Short:   "List, show, redrive and purge dead letters",
		Long: `Dead letters are events that a Subscription could not deliver: the sink refused them, or their attempts are used up.
They stay until they are delivered again (redrive) or deleted (purge).`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newDeadLetterList(streams), newDeadLetterShow(streams), newRedrive(streams), newPurge(streams))
	return cmd
}

// scope selects the dead letters of a command.
type scope struct {
	subscription string
	reason       string
	everywhere   bool
}

func (s *scope) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&s.subscription, "subscription", "", "only those of this Subscription, as NAME or NAMESPACE/NAME")
	fs.StringVar(&s.reason, "reason", "", "only those with this reason: "+strings.Join(reasons(), ", "))
	fs.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "of all namespaces")
}

func reasons() []string {
	var codes []string
	for _, reason := range failure.DeadLetters() {
		codes = append(codes, string(reason))
	}
	return codes
}

// check validates the flags before any request.
func (s *scope) check() error {
	if s.reason == "" {
		return nil
	}
	if _, err := failure.ParseDeadLetter(s.reason); err != nil {
		return exit.Errorf(exit.Usage, "--reason: %w", err)
	}
	return nil
}

// noteReasons lists the existing reasons when no dead letter has the one of the flag.
func (s *scope) noteReasons(ctx context.Context, ss *session, client *target.Client, selected target.Selection) error {
	counts, more, err := client.Reasons(ctx, selected)
	if err != nil {
		return err
	}
	if len(counts) == 0 {
		ss.note("there are no dead letters")
		return nil
	}
	shown := make([]string, len(counts))
	for i, c := range counts {
		shown[i] = fmt.Sprintf("%s (%d)", output.Clean(c.Reason), c.Count)
	}
	among := "there are"
	if more {
		among = "among the oldest there are"
	}
	ss.note("no dead letter has the reason %s; %s %s", s.reason, among, strings.Join(shown, ", "))
	return nil
}

// selection returns the selection for the admin API.
func (s *scope) selection(ss *session, conn *target.Connection) (target.Selection, error) {
	namespace, err := ss.namespaceOf(conn, s.everywhere)
	selected := target.Selection{Namespace: namespace, Subscription: s.subscription, Reason: s.reason}
	if err != nil || s.subscription == "" {
		return selected, err
	}
	namespace, name, err := ss.function(conn, s.subscription) // the same syntax as a Function's name
	if err != nil {
		return selected, exit.Errorf(exit.Usage, "--subscription %q: use NAME or NAMESPACE/NAME", s.subscription)
	}
	if namespace == "" {
		return selected, exit.Errorf(exit.Usage, "--subscription %s: name its namespace too, with -n or as NAMESPACE/%s", name, name)
	}
	selected.Namespace, selected.Subscription = namespace, name
	return selected, nil
}

// namespaceOf returns the namespace to query, "" for all.
func (s *session) namespaceOf(conn *target.Connection, everywhere bool) (string, error) {
	switch {
	case !everywhere:
		return conn.Namespace, nil
	case s.options.Namespace != "":
		return "", exit.Errorf(exit.Usage, "--all-namespaces and --namespace contradict each other: leave one out")
	}
	return "", nil
}

// bridgeOf returns any bridge: all share the stream with the dead letters.
func bridgeOf(ctx context.Context, conn *target.Connection) (*target.Client, error) {
	admins, err := conn.Admins(ctx)
	if err != nil {
		return nil, err
	}
	return target.New(admins[0]), nil
}

func newDeadLetterList(streams Streams) *cobra.Command {
	var in scope
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest first",
		Example: `  rouse dlq list
  rouse dlq list --subscription orders/pricing --reason AttemptsExhausted
  rouse dlq list --context production -A -o json`,
		Args: exactly(0, ""),
	}
	s := ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.GroupID = ""
	in.bind(cmd)
	s.completeFlag(cmd, "subscription", fullSubscriptionNames)
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return exit.Errorf(exit.Usage, "--limit %d: use at least 1", limit)
		}
		if err := in.check(); err != nil {
			return err
		}
		return s.with(func(conn *target.Connection) error {
			selected, err := in.selection(s, conn)
			if err != nil {
				return err
			}
			s.reportProgress("asking " + conn.Name + " for dead letters")
			client, err := bridgeOf(cmd.Context(), conn)
			if err != nil {
				return err
			}
			deadLetters, more, err := client.DeadLetters(cmd.Context(), selected, limit)
			if err != nil {
				return err
			}
			s.endProgress()
			if more {
				defer s.note("there are more: raise --limit, or choose with --subscription and --reason")
			}
			if err := s.printDeadLetters(deadLetters); err != nil || len(deadLetters) > 0 {
				return err
			}
			if in.reason != "" {
				return in.noteReasons(cmd.Context(), s, client, selected)
			}
			if s.forPeople() {
				s.note("there are no dead letters")
			}
			return nil
		})
	}
	return cmd
}

func (s *session) printDeadLetters(deadLetters []target.DeadLetter) error {
	if written, err := writeList(s, deadLetters, func(each target.DeadLetter) any { return each.Sequence }); written {
		return err
	}
	if len(deadLetters) == 0 {
		return nil
	}
	table := output.NewTable("SEQUENCE", "AGE", "SUBSCRIPTION", "TYPE", "ID", "ATTEMPTS", "STATUS", "REASON", "ANSWER")
	for _, l := range deadLetters {
		status := "-"
		if l.Status != 0 {
			status = strconv.Itoa(l.Status)
		}
		table.Row(l.Sequence, ago(l.Time, time.Now()), s.style.Name(l.Namespace+"/"+l.Subscription), cmp.Or(l.Type, "-"), cmp.Or(l.ID, "-"),
			l.Attempts, status, s.style.Bad(l.Reason), briefAnswer(l.Excerpt))
	}
	return table.Flush(s.Out)
}

// widestAnswer bounds the part of an answer in a list.
const widestAnswer = 80

// briefAnswer returns the beginning of a sink's answer, in one line.
func briefAnswer(excerpt string) string {
	text := []rune(strings.Join(strings.Fields(excerpt), " "))
	if len(text) > widestAnswer {
		return string(text[:widestAnswer-1]) + "…"
	}
	return string(text)
}

func newDeadLetterShow(streams Streams) *cobra.Command {
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "show SEQUENCE",
		Short: "Show a dead letter with its event",
		Example: `  rouse dlq show 17
  rouse dlq show 17 -o json | jq .event.data`,
		Args: exactly(1, "the sequence, as rouse dlq list shows it,"),
	}
	s := ask(streams, cmd, output.JSON, output.YAML)
	cmd.GroupID = ""
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of whatever namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		sequences, err := sequencesOf(args)
		if err != nil {
			return err
		}
		return s.with(func(conn *target.Connection) error {
			s.reportProgress("asking " + conn.Name + " for a dead letter")
			client, err := bridgeOf(cmd.Context(), conn)
			if err != nil {
				return err
			}
			namespace, err := s.namespaceOf(conn, everywhere)
			if err != nil {
				return err
			}
			deadLetter, err := client.DeadLetter(cmd.Context(), namespace, sequences[0])
			if err != nil {
				return err
			}
			s.endProgress()
			if !s.forPeople() {
				return output.Write(s.Out, s.format.Chosen, deadLetter)
			}
			return s.printDeadLetter(deadLetter)
		})
	}
	return cmd
}

func (s *session) printDeadLetter(l target.DeadLetter) error {
	table := output.NewTable("", "")
	row := func(name string, value any) { table.Row(s.style.Dim(name), value) }
	row("sequence", l.Sequence)
	row("subscription", l.Namespace+"/"+l.Subscription)
	row("reason", s.style.Bad(l.Reason))
	if l.Message != "" {
		row("", l.Message)
	}
	row("attempts", l.Attempts)
	if l.Status != 0 {
		row("status", l.Status)
	}
	if l.Excerpt != "" {
		row("answer", l.Excerpt)
	}
	row("time", l.Time.Local().Format(time.DateTime))
	if l.Published != nil {
		row("published", l.Published.Local().Format(time.DateTime))
	}
	if l.ID != "" {
		row("event", l.Type+" "+l.ID+" of "+l.Source)
	}
	if err := table.FlushRows(s.Out); err != nil {
		return err
	}
	if l.Event == nil {
		_, err := fmt.Fprintf(s.Out, "\nThis is no event but %d bytes; -o json has them as base64.\n", len(l.Body))
		return err
	}
	if _, err := fmt.Fprintln(s.Out); err != nil {
		return err
	}
	return output.Write(s.Out, output.JSON, l.Event)
}

func sequencesOf(args []string) ([]uint64, error) {
	sequences := make([]uint64, 0, len(args))
	for _, arg := range args {
		sequence, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || sequence == 0 {
			return nil, exit.Errorf(exit.Usage, "%q is not a sequence number: use the numbers that rouse dlq list shows", arg)
		}
		sequences = append(sequences, sequence)
	}
	return sequences, nil
}
