package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

func newEvents(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "events",
		GroupID: groupAsk,
		Short:   "Follow events",
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newTail(streams))
	return cmd
}

type tail struct {
	*session

	wanted     target.Wanted
	kinds      []string
	follow     bool
	everywhere bool
	limit      int

	table *output.Table
	shown int
}

func newTail(streams Streams) *cobra.Command {
	t := &tail{}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show what happens to events, live",
		Long: `Show each event as it is stored, delivered, tried again or given up, until Ctrl-C or --limit. Bridges remember their
last events, so that --since shows also what has just been.`,
		Example: `  rouse events tail
  rouse events tail --type 'order.*' --since 5m
  rouse events tail --function orders/pricing --kind retry,deadlettered
  rouse events tail --limit 1 -o json --type order.booked`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
	}
	t.session = ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.GroupID = ""
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&t.wanted.Type, "type", "", "only this type; a * may end it")
	fs.StringVar(&t.wanted.Source, "source", "", "only from this source")
	fs.StringVar(&t.wanted.ID, "id", "", "only the event with this id")
	fs.StringVar(&t.wanted.Subscription, "subscription", "", "only deliveries of this Subscription")
	fs.StringVar(&t.wanted.Sink, "function", "", "only deliveries to this Function, as NAME or NAMESPACE/NAME")
	fs.StringSliceVar(&t.kinds, "kind", nil, "only these of stored, delivered, retry, deadlettered, filtered, redriven")
	fs.DurationVar(&t.wanted.Since, "since", 0, "also what was, so far back, for example 5m")
	fs.IntVar(&t.limit, "limit", 0, "end after so many (0: never)")
	fs.BoolVar(&t.follow, "follow", true, "wait for more; with --follow=false it shows what was and ends")
	t.completeFlag(cmd, "type", eventTypes(&t.wanted.Source))
	t.completeFlag(cmd, "source", eventSources(&t.wanted.Type))
	t.completeFlag(cmd, "subscription", subscriptionNames)
	t.completeFlag(cmd, "function", functionNames)
	fs.BoolVarP(&t.everywhere, "all-namespaces", "A", false, "deliveries in all namespaces")
	return cmd
}

func (t *tail) run(ctx context.Context) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.with(func(conn *target.Connection) error {
		if t.wanted.Namespace = conn.Namespace; t.everywhere {
			t.wanted.Namespace = ""
		}
		t.wanted.Within, t.wanted.Note = t.wanted.Namespace, t.noteOnce()
		t.reportProgress("waiting for events of " + conn.Name)
		admins, err := conn.Admins(ctx)
		if err != nil {
			return err
		}
		if t.forPeople() {
			t.table = eventTable()
		}
		if !t.follow {
			return t.recent(ctx, admins)
		}
		return t.live(ctx, admins)
	})
}

func (t *tail) check() error {
	if t.limit < 0 {
		return exit.Errorf(exit.Usage, "--limit %d: use 0 for no limit, or more", t.limit)
	}
	if !t.follow && t.wanted.Since == 0 {
		t.wanted.Since = -1
	}
	known := journal.Kinds()
	for _, name := range t.kinds {
		kind, ok := kindOf(name, known)
		if !ok {
			return exit.Errorf(exit.Usage, "--kind %s: use some of %s", name, kindNames(known))
		}
		t.wanted.Kinds = append(t.wanted.Kinds, kind)
	}
	return nil
}

func kindOf(name string, known []journal.Kind) (journal.Kind, bool) {
	for _, kind := range known {
		if string(kind) == name {
			return kind, true
		}
	}
	return "", false
}

func kindNames(kinds []journal.Kind) string {
	var names []string
	for _, kind := range kinds {
		if kind != journal.Skipped {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, ", ")
}

func (t *tail) recent(ctx context.Context, admins []target.Admin) error {
	records, err := target.Recent(ctx, admins, t.wanted)
	if err != nil {
		return err
	}
	if t.limit > 0 && len(records) > t.limit {
		records = records[len(records)-t.limit:]
	}
	for _, r := range records {
		if err := t.write(r); err != nil {
			return err
		}
	}
	return nil
}

func (t *tail) live(ctx context.Context, admins []target.Admin) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	var written error
	err := target.Follow(following, admins, t.wanted, func(r journal.Record) {
		if following.Err() != nil {
			return
		}
		written = t.write(r)
		if written != nil || t.limit > 0 && t.shown == t.limit {
			stop()
		}
	}, func(err error) { t.note("one of the bridges is lost: %s", output.Clean(err.Error())) })
	switch {
	case written != nil:
		return written
	case following.Err() != nil:
		return nil // Ctrl-C or --limit
	}
	return err
}

func (t *tail) write(r journal.Record) error {
	if r.Kind == journal.Skipped {
		t.note("%d records are left out here: they came faster than they were read", r.Count)
		return nil
	}
	t.endProgress()
	t.shown++
	switch t.format.Chosen {
	case output.JSON, output.YAML:
		return output.WriteOne(t.Out, t.format.Chosen, r)
	case output.Name:
		_, err := fmt.Fprintln(t.Out, r.ID)
		return err
	case output.Text:
	}
	if t.shown == 1 {
		if err := t.table.Header(t.Out); err != nil {
			return err
		}
	}
	return t.table.WriteRow(t.Out, t.eventRow(r)...)
}

func eventTable() *output.Table {
	return output.NewTable("TIME", "WHAT", "TYPE", "ID", "SUBSCRIPTION", "").AtLeast(len(clock), 12, 20, 26, 20)
}

func (s *session) eventRow(r journal.Record) []any {
	subscription := "-"
	if r.Subscription != "" {
		subscription = r.Namespace + "/" + r.Subscription
	}
	return []any{
		s.style.Dim(r.Time.Local().Format(clock)), s.kind(r.Kind), cmp.Or(r.Type, "-"), cmp.Or(r.ID, "-"), subscription,
		s.style.Dim(eventNote(r)),
	}
}

func (s *session) kind(kind journal.Kind) output.Styled {
	switch kind {
	case journal.Delivered:
		return s.style.Good(string(kind))
	case journal.Retry:
		return s.style.Busy(string(kind))
	case journal.DeadLettered:
		return s.style.Bad(string(kind))
	default:
		return s.style.Name(string(kind))
	}
}

// eventNote is what else is worth a word.
func eventNote(r journal.Record) string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if r.Kind == journal.Stored {
		add("from %s", r.Source)
	}
	if r.Cause != "" {
		add("caused by %s", r.Cause)
	}
	if r.Status != 0 {
		add("%d", r.Status)
	}
	if r.Took > 0 {
		add("in %s", briefly(r.Took))
	}
	if r.Attempt > 1 {
		add("attempt %d", r.Attempt)
	}
	if why := cmp.Or(r.Message, r.Reason); why != "" {
		add("%s", why)
	}
	if r.Due != nil {
		add("again in %s", briefly(r.Due.Sub(r.Time)))
	}
	return strings.Join(notes, ", ")
}

// briefly rounds a duration to what people want to know.
func briefly(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond)
	case d < time.Second:
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
