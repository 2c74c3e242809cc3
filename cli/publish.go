package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/cli/event"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/routing"
)

// maxContent bounds the size of a file or the input.
const maxContent = 256 << 20

type publish struct {
	*session

	in       event.Input
	data     string
	file     string
	retryFor time.Duration
	at       string
	delay    time.Duration
	due      time.Time // zero: at once
}

func newPublish(streams Streams) *cobra.Command {
	p := &publish{}
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish events",
		Long: `Publish one event made of flags, or whole events from a file: a structured CloudEvent, or a JSON array of them,
which goes as one batch. Prints the id of each event that is stored.

What the bridge cannot take at the moment is sent again with the same id, so that it is stored once. Events that it
refuses are named with its reason, and the exit code is 5. An event that no Subscription takes is stored all the same and
the exit code is 0; a note says so, with what may have been meant.

With --at or --delay the bridge keeps the events until then; rouse schedules delayed lists them, and rouse schedules cancel
takes one back.`,
		Example: `  rouse publish --type order.received --source shop --data '{"id": "1001", "lines": []}'
  rouse publish --type order.received --source shop -d @order.json
  rouse publish -f events.json                      # whole events
  rouse publish --type reminder.due --source shop --delay 72h
  jq -c . order.json | rouse publish --type order.received --source shop -f -
  rouse publish --context production --type ping --source me`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	p.session = ask(streams, cmd, output.JSON, output.YAML, output.Name)
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&p.in.Type, "type", "", "type of the event; without it the file holds whole events")
	fs.StringVar(&p.in.Source, "source", "", "source of the event, and of whole events that have none")
	fs.StringVar(&p.in.ID, "id", "", "id of the event (default: a random one)")
	fs.StringVar(&p.in.Subject, "subject", "", "subject of the event")
	fs.StringVarP(&p.data, "data", "d", "", "data of the event, or whole events; @FILE reads them from a file, @- from the input")
	fs.StringVarP(&p.file, "data-file", "f", "", "file with the same, whatever it is named; - is the input")
	fs.StringVar(&p.in.ContentType, "content-type", "", "type of the data (default: told from the data)")
	fs.StringToStringVar(&p.in.Extensions, "extension", nil, "extension attributes, as name=value")
	fs.DurationVar(&p.retryFor, "retry-for", 30*time.Second, "how long to send an event again that cannot be stored yet")
	fs.StringVar(&p.at, "at", "", "when the events are to go on, such as 2027-01-01T09:00:00Z (default: at once)")
	fs.DurationVar(&p.delay, "delay", 0, "how much later they are to go on, such as 90m")
	p.completeFlag(cmd, "type", eventTypes(&p.in.Source))
	p.completeFlag(cmd, "source", eventSources(&p.in.Type))
	return cmd
}

func (p *publish) run(cmd *cobra.Command) error {
	if err := p.read(cmd); err != nil {
		return err
	}
	batch, err := event.Build(p.in)
	if err != nil {
		return err
	}
	var results []event.Result
	err = p.with(func(conn *target.Connection) error {
		if results, err = p.send(cmd.Context(), conn, batch); err == nil {
			noteUnwanted(cmd.Context(), conn, results)
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.printResults(results)
}

func (p *publish) read(cmd *cobra.Command) (err error) {
	if err := p.readDue(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("data") && p.file != "" {
		return exit.Errorf(exit.Usage, "--data and --data-file exclude each other: leave one out")
	}
	p.in.HasContent = cmd.Flags().Changed("data") || p.file != ""
	if p.file != "" {
		p.in.Content, err = p.readContent("data-file", p.file)
	} else {
		p.in.Content, err = p.readData(p.data)
	}
	return err
}

// readDue reads when the events are to go on. A delay counts from now, however often they are sent.
func (p *publish) readDue(cmd *cobra.Command) error {
	switch {
	case p.at != "" && cmd.Flags().Changed("delay"):
		return exit.Errorf(exit.Usage, "--at and --delay exclude each other: leave one out")
	case p.delay < 0:
		return exit.Errorf(exit.Usage, "--delay %s: it must not be negative", p.delay)
	case p.delay > 0:
		p.due = time.Now().Add(p.delay)
	case p.at != "":
		due, err := time.Parse(time.RFC3339, p.at)
		if err != nil {
			return exit.Errorf(exit.Usage, "--at %q: use a time such as 2027-01-01T09:00:00Z", p.at)
		}
		p.due = due
	}
	return nil
}

func (p *publish) send(ctx context.Context, conn *target.Connection, batch event.Batch) ([]event.Result, error) {
	p.reportProgress("publishing to " + conn.Name)
	url, err := conn.Publish(ctx)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	return event.Sender{URL: url, Client: client, RetryFor: p.retryFor, Note: p.reportProgress, Due: p.due}.Send(ctx, batch)
}

// printResults prints the results. It fails with the refused events.
func (p *publish) printResults(results []event.Result) error {
	var refused []event.Result
	for i, r := range results {
		if r.Stored() {
			if p.format.Chosen == output.Text || p.format.Chosen == output.Name {
				if _, err := fmt.Fprintln(p.Out, r.ID); err != nil {
					return err
				}
			}
			continue
		}
		refused = append(refused, r)
		if len(results) > 1 {
			p.note("event %d (id %s): %s", i+1, output.Clean(r.ID), output.Clean(r.Reason))
		}
	}
	if p.format.Chosen == output.JSON || p.format.Chosen == output.YAML {
		if err := output.Write(p.Out, p.format.Chosen, results); err != nil {
			return err
		}
	}
	p.printUnwanted(results)
	switch {
	case len(refused) == 0:
		return nil
	case len(results) == 1:
		return exit.Errorf(exit.Refused, "the event was not stored: %s", output.Clean(refused[0].Reason))
	}
	return exit.Errorf(exit.Refused, "%d of %d events were not stored", len(refused), len(results))
}

func readAll(in io.Reader, flag string) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(in, maxContent+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the input for --%s: %w", flag, err)
	case len(content) > maxContent:
		return nil, exit.Errorf(exit.Usage, "--%s: the input is larger than %d bytes", flag, maxContent)
	}
	return content, nil
}

const (
	// interestTimeout bounds the request for the Subscriptions, because the events are stored and the user waits.
	interestTimeout = 3 * time.Second
	// notedKinds bounds how many kinds of events without a Subscription are listed.
	notedKinds = 10
)

// noteUnwanted marks the results of stored events that no Subscription matches. A user without the right to list the Subscriptions of all
// namespaces gets no notes, which does not fail the publish.
func noteUnwanted(ctx context.Context, conn *target.Connection, results []event.Result) {
	ctx, cancel := context.WithTimeout(ctx, interestTimeout)
	defer cancel()
	all, err := conn.Subscriptions(ctx, "")
	if err != nil {
		return
	}
	specs := make([]eventingv1alpha2.SubscriptionSpec, 0, len(all))
	for _, sub := range all {
		specs = append(specs, eventingv1alpha2.SubscriptionSpec{
			Source: sub.Source, Types: sub.Types, TypeMatching: eventingv1alpha2.TypeMatching(sub.TypeMatching),
		})
	}
	wanted, known := routing.InterestOf(specs), map[routing.EventKind]string{}
	for i := range results {
		r := &results[i]
		if !r.Stored() {
			continue
		}
		kind := routing.EventKind{Type: r.Type, Source: r.Source}
		text, done := known[kind]
		if !done {
			text = wanted.Explain(kind)
			known[kind] = text
		}
		r.Note = text
	}
}

// printUnwanted prints a line for each kind of events that no Subscription matches.
func (s *session) printUnwanted(results []event.Result) {
	var order []routing.EventKind
	count, texts := map[routing.EventKind]int{}, map[routing.EventKind]string{}
	for _, r := range results {
		if r.Note == "" {
			continue
		}
		kind := routing.EventKind{Type: r.Type, Source: r.Source}
		if count[kind]++; count[kind] == 1 {
			order, texts[kind] = append(order, kind), r.Note
		}
	}
	for i, kind := range order {
		if i == notedKinds {
			s.note("and %d other kinds of events that match no Subscription", len(order)-notedKinds)
			return
		}
		times := ""
		if count[kind] > 1 {
			times = fmt.Sprintf(" (%d events)", count[kind])
		}
		s.note("%s%s: stored, but %s", output.Clean(kind.String()), times, output.Clean(texts[kind]))
	}
}
