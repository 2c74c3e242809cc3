package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/cli/trace"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

func newEvents(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "events",
		GroupID: groupAsk,
		Short:   "Follow events, publish them again, and see their types",
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newTail(streams), newReplay(streams), newEventTypes(streams))
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

// eventNote returns further details of a record.
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

// briefly rounds a duration for people.
func briefly(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond)
	case d < time.Second:
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// chainPollInterval is the interval at which a chain in flight is checked.
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
				return exit.Errorf(exit.Failed, "events of the chain are still in flight after %s; raise --wait", wait)
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

// chain polls until no event of the chain is in flight, or until the timeout.
func (s *session) chain(
	ctx context.Context, admins []target.Admin, asked target.Wanted, id string, wait time.Duration,
) (root trace.Node, atRest bool, err error) {
	deadline := time.Now().Add(wait)
	for rested := false; ; {
		root, rests, err := chainNow(ctx, admins, asked, id)
		unknown := errors.Is(err, trace.ErrUnknown)
		switch {
		case err != nil && !unknown:
			return root, false, err
		case rests && (rested || !awaitsDelivery(root)):
			return root, true, nil
		case time.Now().After(deadline):
			if unknown {
				err = exit.With(exit.NotFound, err)
			}
			return root, rests, err
		}
		rested = rests
		s.reportProgress("waiting for the chain of " + id + " to come to rest")
		select {
		case <-ctx.Done():
			return root, false, ctx.Err()
		case <-time.After(chainPollInterval):
		}
	}
}

// chainNow returns the chain, and whether no event of it is in flight.
func chainNow(ctx context.Context, admins []target.Admin, asked target.Wanted, id string) (root trace.Node, rests bool, err error) {
	idle, err := target.New(admins[0]).Idle(ctx, asked.Within) // before the records, which contain deliveries in between
	if err != nil {
		return root, false, err
	}
	records, err := chainRecords(ctx, admins, asked, id)
	if err != nil {
		return root, false, err
	}
	root, err = trace.Tree(records, id)
	return root, err == nil && idle && !moves(root), err
}

// chainRecords returns the records of the event and of all events with its trace.
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

// awaitsDelivery reports whether an event of the tree has no delivery. It may have no Subscription, or be stored since a moment ago:
// nats-server counts an event as pending shortly after it has confirmed it.
func awaitsDelivery(n trace.Node) bool {
	if len(n.Deliveries) == 0 || slices.ContainsFunc(n.Children, awaitsDelivery) {
		return true
	}
	return slices.ContainsFunc(n.Deliveries, func(d trace.Delivery) bool { return slices.ContainsFunc(d.Children, awaitsDelivery) })
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
