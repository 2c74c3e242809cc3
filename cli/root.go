package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/convert"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/daemon"
)

// Streams are what a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Main runs one command line and returns the exit code.
func Main(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !exit.IsReported(err) {
		_, _ = fmt.Fprintln(streams.Err, "rouse:", err) // when that cannot be written there is no other output
	}
	return int(exit.CodeOf(err))
}

// newRoot makes all commands.
func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "rouse",
		Short: "Functions that sleep at zero and wake on the first event",
		Long: `rouse runs Functions on this machine, and asks a running Rouse: publishes events, follows them, reads logs
and handles dead letters.`,
		Version:       daemon.ThisBuild().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Errorf(exit.Usage, "%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: groupWork, Title: "Work on Functions:"}, &cobra.Group{ID: groupAsk, Title: "Ask a running Rouse:"})
	root.AddCommand(
		newInit(), newDev(streams), newConvert(), convert.NewMigrate(),
		newPublish(streams), newInvoke(streams), newLogs(streams), newFunctions(streams), newSubscriptions(streams),
		newEvents(streams), newTrace(streams), newDeadLetters(streams),
		newVersion(streams), newMan(), helpTopicExitCodes(),
	)
	judgeArguments(root)
	return root
}

// The groups of the help.
const (
	groupWork = "work" // init, dev, convert
	groupAsk  = "ask"  // publish and all that act on a target
)

// noCommand refuses what is no command, with what may have been meant.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		text += "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return exit.Errorf(exit.Usage, "%s; see %s --help", text, cmd.CommandPath())
}
