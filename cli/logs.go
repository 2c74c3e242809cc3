package cli

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

func newLogs(streams Streams) *cobra.Command {
	var options target.LogOptions
	cmd := &cobra.Command{
		Use:   "logs FUNCTION",
		Short: "Show what a Function prints",
		Long: `Show what all replicas of a Function print. With -f new lines follow as they come, also those of replicas that come
up later, until Ctrl-C.`,
		Example: `  rouse logs pricing
  rouse logs -f orders/pricing --tail 20
  rouse logs pricing --since 10m -o json | jq .text`,
		Args: exactly(1, "the Function"),
	}
	s := ask(streams, cmd, output.JSON)
	cmd.ValidArgsFunction = once(s.complete(functionNames))
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&options.Follow, "follow", "f", false, "go on until Ctrl-C")
	fs.IntVar(&options.Tail, "tail", -1, "lines of the past (-1: all that are kept)")
	fs.DurationVar(&options.Since, "since", 0, "only lines that are not older, for example 5m")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.with(func(conn *target.Connection) error {
			namespace, name, err := s.function(conn, args[0])
			if err != nil {
				return err
			}
			var written error
			err = conn.Log(cmd.Context(), namespace, name, options, func(line target.Line) {
				s.endProgress()
				if written == nil {
					written = s.writeLine(line)
				}
			})
			switch {
			case written != nil:
				return written
			case cmd.Context().Err() != nil:
				return nil //nolint:nilerr // Ctrl-C is how following ends
			}
			return err
		})
	}
	return cmd
}

func (s *session) writeLine(line target.Line) error {
	if s.format.Chosen == output.JSON {
		return output.WriteOne(s.Out, output.JSON, line)
	}
	replica := s.style.Paint(colorOf(line.Replica), line.Replica)
	text := output.Styled(line.Text)
	if line.Stream == "rouse" {
		text = s.style.Dim(line.Text)
	}
	_, err := fmt.Fprintln(s.Out, s.style.Dim(line.Time.Local().Format(clock)), replica, text)
	return err
}

// clock is how the time of today is written.
const clock = "15:04:05.000"

// colorOf gives each replica its own.
func colorOf(name string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return int(hash.Sum32() % output.Colors)
}

// ago is how long something is past, for people.
func ago(since, now time.Time) string {
	passed := now.Sub(since)
	switch {
	case passed < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(passed.Seconds())))
	case passed < time.Hour:
		return fmt.Sprintf("%dm", int(passed.Minutes()))
	case passed < 48*time.Hour:
		return fmt.Sprintf("%dh", int(passed.Hours()))
	}
	return fmt.Sprintf("%dd", int(passed.Hours()/24))
}
