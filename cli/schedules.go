package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/schedule"
)

func newSchedules(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedules",
		Aliases: []string{"schedule"},
		GroupID: groupAsk,
		Short:   "List and run Schedules, and events that go on later",
		Long: `A Schedule publishes an event whenever it is due. Events that were published with a time go on then: delayed lists
them, and cancel takes one back.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newScheduleList(streams), newScheduleNext(streams), newScheduleRun(streams), newDelayedList(streams), newDelayedCancel(streams))
	return cmd
}

func newScheduleList(streams Streams) *cobra.Command {
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List Schedules, with their last and next times",
		Example: `  rouse schedules list
  rouse schedules list -A -o json`,
		Args: exactly(0, ""),
	}
	s := ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.GroupID = ""
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.withBridge(cmd.Context(), everywhere, "asking %s for Schedules", func(client *target.Client, namespace string) error {
			all, err := client.Schedules(cmd.Context(), namespace)
			if err != nil {
				return err
			}
			s.endProgress()
			return s.printSchedules(all)
		})
	}
	return cmd
}

// withBridge runs do with any bridge, since all know the same, and the namespace to ask for.
func (s *session) withBridge(ctx context.Context, everywhere bool, progress string, do func(client *target.Client, namespace string) error) error {
	return s.with(func(conn *target.Connection) error {
		namespace, err := s.namespaceOf(conn, everywhere)
		if err != nil {
			return err
		}
		s.reportProgress(fmt.Sprintf(progress, conn.Name))
		client, err := bridgeOf(ctx, conn)
		if err != nil {
			return err
		}
		return do(client, namespace)
	})
}

func (s *session) printSchedules(all []target.Schedule) error {
	if written, err := writeList(s, all, func(each target.Schedule) any { return each.Namespace + "/" + each.Name }); written {
		return err
	}
	if len(all) == 0 {
		s.note("there are no Schedules")
		return nil
	}
	table := output.NewTable("NAMESPACE", "NAME", "WHEN", "TYPE", "LAST", "NEXT", "PUBLISHED", "MISSED", "PROBLEM")
	for _, each := range all {
		table.Row(each.Namespace, s.style.Name(each.Name), each.When, each.Type, orDash(each.Last), orDash(each.Next), each.Published, each.Missed,
			s.style.Bad(each.Problem))
	}
	return table.Flush(s.Out)
}

func orDash(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func newScheduleNext(streams Streams) *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use:   "next FILE",
		Short: "Print the next times of the Schedules in a file, without a cluster",
		Example: `  rouse schedules next nightly.yaml
  rouse schedules next nightly.yaml --count 20
  cat nightly.yaml | rouse schedules next -`,
		Args: exactly(1, "a file with Schedules, or - for the input,"),
	}
	cmd.Flags().IntVar(&count, "count", 5, "how many times")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if count < 1 {
			return exit.Errorf(exit.Usage, "--count %d: use at least 1", count)
		}
		in := streams.In
		if args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return exit.Errorf(exit.Usage, "read Schedules: %w", err)
			}
			defer func() { _ = file.Close() }()
			in = file
		}
		return printNext(streams.Out, io.LimitReader(in, maxContent), args[0], count)
	}
	return cmd
}

// printNext prints the next times of each Schedule of a stream of YAML documents. Others are left out.
func printNext(out io.Writer, in io.Reader, name string, count int) error {
	documents := yaml.NewYAMLOrJSONDecoder(in, 1<<10)
	for found := 0; ; {
		s := &rousev1alpha1.Schedule{}
		err := documents.Decode(s)
		switch {
		case errors.Is(err, io.EOF) && found == 0:
			return exit.Errorf(exit.Refused, "%s has no Schedule: its apiVersion is %s", name, rousev1alpha1.GroupVersion)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return exit.Errorf(exit.Refused, "%s: %w", name, err)
		case s.Kind != "Schedule":
			continue
		}
		found++
		s.CreationTimestamp = metav1.Now()
		plan, err := schedule.New(s)
		if err != nil {
			return exit.Errorf(exit.Refused, "%s: Schedule %s: %w", name, s.Name, err)
		}
		if err := printTimes(out, s.Name, plan, count); err != nil {
			return err
		}
	}
}

func printTimes(out io.Writer, name string, plan schedule.Plan, count int) error {
	last := time.Now()
	for i := range count {
		next, ok := plan.Next(last)
		if !ok {
			_, err := fmt.Fprintf(out, "%s  nothing more is due\n", name)
			return err
		}
		if _, err := fmt.Fprintf(out, "%s  %s  in %s\n", name, next.Format(time.RFC3339), time.Until(next).Round(time.Second)); err != nil {
			return fmt.Errorf("print time %d: %w", i+1, err)
		}
		last = next
	}
	return nil
}

func newScheduleRun(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Publish the event of a Schedule now, which moves none of its times",
		Example: `  rouse schedules run nightly
  rouse schedules run reports/nightly --context production`,
		Args: exactly(1, "the name of a Schedule"),
	}
	s := ask(streams, cmd, output.JSON, output.YAML)
	cmd.GroupID = ""
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.with(func(conn *target.Connection) error {
			namespace, name, err := s.function(conn, args[0]) // the same syntax as a Function's name
			if err != nil {
				return exit.Errorf(exit.Usage, "%q is not the name of a Schedule: use NAME or NAMESPACE/NAME", args[0])
			}
			s.reportProgress("running " + name + " in " + conn.Name)
			client, err := bridgeOf(cmd.Context(), conn)
			if err != nil {
				return err
			}
			id, err := client.RunSchedule(cmd.Context(), namespace, name)
			if err != nil {
				return err
			}
			s.endProgress()
			if !s.forPeople() {
				return output.Write(s.Out, s.format.Chosen, map[string]string{"id": id})
			}
			_, err = fmt.Fprintln(s.Out, id)
			return err
		})
	}
	return cmd
}

func newDelayedList(streams Streams) *cobra.Command {
	var everywhere bool
	var limit int
	cmd := &cobra.Command{
		Use:   "delayed",
		Short: "List events that go on later, the next one first",
		Example: `  rouse schedules delayed
  rouse schedules delayed -A --limit 1000 -o json`,
		Args: exactly(0, ""),
	}
	s := ask(streams, cmd, output.JSON, output.YAML, output.Name)
	cmd.GroupID = ""
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces, and of publishers whose namespace is not known")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return exit.Errorf(exit.Usage, "--limit %d: use at least 1", limit)
		}
		return s.withBridge(cmd.Context(), everywhere, "asking %s for delayed events", func(client *target.Client, namespace string) error {
			next, total, err := client.Delayed(cmd.Context(), namespace, limit)
			if err != nil {
				return err
			}
			s.endProgress()
			if total > len(next) {
				defer s.note("%d of %d are shown: raise --limit", len(next), total)
			}
			return s.printDelayed(next)
		})
	}
	return cmd
}

func (s *session) printDelayed(next []target.Delayed) error {
	if written, err := writeList(s, next, func(each target.Delayed) any { return each.ID }); written {
		return err
	}
	if len(next) == 0 {
		s.note("no event waits for its time")
		return nil
	}
	table := output.NewTable("ID", "DUE", "NAMESPACE", "TYPE", "SOURCE", "EVENT")
	for _, each := range next {
		table.Row(each.ID, each.Due.Format(time.RFC3339), each.Namespace, s.style.Name(each.Type), each.Source, output.Clean(each.EventID))
	}
	return table.Flush(s.Out)
}

func newDelayedCancel(streams Streams) *cobra.Command {
	var everywhere bool
	cmd := &cobra.Command{
		Use:     "cancel ID",
		Short:   "Take back an event that goes on later",
		Example: `  rouse schedules cancel 5f0c6e2f1f9d4d0c9f1d2a0f4f6f8f7e`,
		Args:    exactly(1, "the ID, as rouse schedules delayed shows it,"),
	}
	s := ask(streams, cmd)
	cmd.GroupID = ""
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of whatever namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.withBridge(cmd.Context(), everywhere, "asking %s to cancel an event", func(client *target.Client, namespace string) error {
			if err := client.CancelDelayed(cmd.Context(), namespace, args[0]); err != nil {
				return err
			}
			s.endProgress()
			s.note("cancelled")
			return nil
		})
	}
	return cmd
}
