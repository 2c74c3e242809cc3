package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/event"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// replayRetry is how long a replayed event is sent again that cannot be stored yet.
const replayRetry = 30 * time.Second

// replaySuffix is the time format of new ids.
const replaySuffix = "-150405.000"

// tracing are the extensions that lead to the events and calls before. A replay begins a trace of its own.
var tracing = []string{"traceparent", "tracestate", "rousecause", "rousehops"}

type replay struct {
	publish

	eventType string
	sameID    bool
}

func newReplay(streams Streams) *cobra.Command {
	r := &replay{}
	cmd := &cobra.Command{
		Use:   "replay {ID... | --type TYPE | --from FILE}",
		Short: "Publish events again",
		Long: `Publish events again that local mode has seen: by their ids, or all of a type. Local mode remembers the last 1,000 events of
its run, with up to 16 MiB of data. With --from the events come from a file, in local mode and in a cluster; ids and --type choose
among them. A cluster keeps no event that was delivered.

Each event gets a new id, the old one with the time, because an event with a known id is not stored again within two minutes.`,
		Example: `  rouse events replay 1001
  rouse events replay --type 'order.*'
  rouse events replay --from events.json --type order.received --context staging`,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	r.session, r.retryFor = ask(streams, cmd, output.JSON, output.YAML, output.Name), replayRetry
	cmd.GroupID = ""
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&r.file, "from", "", "file with an event or an array of them (CloudEvents JSON); - is the input")
	fs.StringVar(&r.eventType, "type", "", "only events of this type; a * may end it")
	fs.BoolVar(&r.sameID, "same-id", false, "keep the ids, for events that are not known any more")
	r.completeFlag(cmd, "type", eventTypes(&r.in.Source))
	return cmd
}

func (r *replay) run(ctx context.Context, ids []string) error {
	if len(ids) == 0 && r.eventType == "" && r.file == "" {
		return exit.Errorf(exit.Usage, "nothing is selected: name ids, --type or --from; rouse events tail --since 5m shows what there was")
	}
	if !cloudevent.IsTypePattern(r.eventType) {
		return exit.Errorf(exit.Usage, "--type %s: a * may stand at its end only, as in order.*", r.eventType)
	}
	var results []event.Result
	err := r.with(func(conn *target.Connection) error {
		batch, err := r.batch(ctx, conn, ids)
		if err != nil {
			return err
		}
		if results, err = r.send(ctx, conn, batch); err == nil {
			noteUnwanted(ctx, conn, results)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.printResults(results)
}

// batch returns the selected events with new ids.
func (r *replay) batch(ctx context.Context, conn *target.Connection, ids []string) (event.Batch, error) {
	content, err := r.content(ctx, conn, ids)
	if err != nil {
		return event.Batch{}, err
	}
	if text := strings.TrimSpace(string(content)); text == "[]" {
		return event.Batch{}, r.none(ids)
	}
	batch, err := event.Build(event.Input{HasContent: true, Content: content})
	if err != nil {
		return event.Batch{}, err
	}
	suffix := time.Now().Format(replaySuffix)
	chosen := batch.Events[:0]
	for i := range batch.Events {
		ev := &batch.Events[i]
		if !r.wants(ev.ID(), ev.Type(), ids) {
			continue
		}
		for _, name := range tracing {
			ev.SetExtension(name, nil)
		}
		if !r.sameID {
			ev.SetID(ev.ID() + suffix)
		}
		chosen = append(chosen, *ev)
	}
	if batch.Events = chosen; len(chosen) == 0 {
		return event.Batch{}, r.none(ids)
	}
	return batch, nil
}

func (r *replay) content(ctx context.Context, conn *target.Connection, ids []string) ([]byte, error) {
	if r.file != "" {
		return r.readContent("from", r.file)
	}
	r.reportProgress("asking " + conn.Name + " for events")
	return conn.Published(ctx, ids, r.eventType)
}

func (r *replay) wants(id, eventType string, ids []string) bool {
	typed := r.eventType == "" || cloudevent.MatchesType(r.eventType, eventType)
	return typed && (len(ids) == 0 || slices.Contains(ids, id))
}

// none is the error when no event is selected.
func (r *replay) none(ids []string) error {
	what := "no event"
	if len(ids) > 0 {
		what += " with the id " + strings.Join(ids, " or ")
	}
	if r.eventType != "" {
		what += " of type " + r.eventType
	}
	if r.file != "" {
		return exit.Errorf(exit.NotFound, "there is %s in %s", what, r.file)
	}
	return exit.Errorf(exit.NotFound, "local mode remembers %s: it knows the last 1,000 of its run; name a file with --from", what)
}
