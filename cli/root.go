package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/rouse-run/rouse/cli/convert"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/scaffold"
	"github.com/rouse-run/rouse/dev"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Streams are the standard streams of a command.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// ProgressAfter is the time until the command writes to Err what it waits for; 0: the usual second.
	ProgressAfter time.Duration
}

// Main runs a command line and returns the exit code.
func Main(ctx context.Context, args []string, streams Streams) int {
	return execute(ctx, newRoot(streams), args, streams)
}

// Plugin runs a command line of kubectl's: kubectl rouse. Commands then ask the cluster of kubectl's current context, unless a flag says
// otherwise.
func Plugin(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl rouse"}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		flags := cmd.Flags()
		if flags.Lookup(currentContext) == nil || flags.Changed("dir") || flags.Changed("context") || flags.Changed("kubeconfig") {
			return nil
		}
		return flags.Set(currentContext, "true")
	}
	return execute(ctx, root, args, streams)
}

func execute(ctx context.Context, root *cobra.Command, args []string, streams Streams) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !exit.IsReported(err) {
		_, _ = fmt.Fprintln(streams.Err, "rouse:", err) // there is no other place to report a failed write
	}
	return int(exit.CodeOf(err))
}

// newRoot returns the root command.
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
		newInit(), newDev(streams), newDeploy(streams), newSync(streams), newDiff(streams), newDelete(streams), newFiles(streams), newConvert(), newMigrate(streams), newDoors(streams), newDoctor(streams),
		newPublish(streams), newInvoke(streams), newLogs(streams), newGet(streams), newDescribe(streams),
		newFunctions(streams), newSubscriptions(streams), newEject(streams), newPause(streams), newResume(streams), newRetry(streams), newRollback(streams),
		newDashboard(streams), newEvents(streams), newTrace(streams), newDeadLetters(streams), newSchedules(streams),
		newVersion(streams), newMan(), helpTopicExitCodes(),
	)
	judgeArguments(root)
	return root
}

// The command groups of the help.
const (
	groupWork = "work" // init, dev, deploy, convert
	groupAsk  = "ask"  // publish and all that act on a target
)

// noCommand returns an error for an unknown command and suggests the closest ones.
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

// judgeArguments makes every command, including cobra's own, end with exit code Usage when its arguments are wrong.
func judgeArguments(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if topic, rest, err := root.Find(args); err != nil || topic == root || len(rest) > 0 {
					return noCommand(root, args)
				}
				return nil
			}
		case "completion":
			cmd.Args, cmd.RunE = noCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		judge(cmd)
	}
}

func judge(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err != nil && exit.CodeOf(err) == exit.Failed {
				return exit.Errorf(exit.Usage, "%w; see %s --help", err, cmd.CommandPath())
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		judge(sub)
	}
}

// helpTopicExitCodes returns the help topic `rouse help exit-codes`.
func helpTopicExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `Every command ends with one of these:

  0  it worked
  1  it did not work, for a reason that has no code of its own; dev --once: something went wrong with an event or a Function;
     diff: there are differences; doctor: there is a failure
  2  the command line is wrong, or a file or folder that it names; the message names the flag or argument
  3  what was asked for does not exist: a Function, an event, a dead letter
  4  there is nothing to talk to: no local mode runs, the cluster does not answer or lets you not in
  5  refused: the event was not taken, or the Function answered with an error`,
	}
}

func newVersion(streams Streams) *cobra.Command {
	format := output.Choices{Allowed: []output.Format{output.JSON, output.YAML}}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the build",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format.Chosen != output.Text {
				return output.Write(streams.Out, format.Chosen, daemon.ThisBuild())
			}
			_, err := fmt.Fprintln(streams.Out, "rouse", daemon.ThisBuild())
			return err
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "write for programs: "+format.Names())
	return cmd
}

// newMan returns the hidden command with which releases write their man pages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write a man page for each command into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o750); err != nil {
				return fmt.Errorf("create the directory of man pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it contains a date
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "ROUSE", Section: "1", Source: "Rouse " + root.Version, Manual: "Rouse", Date: new(time.Unix(0, 0).UTC()),
			}, args[0])
		},
	}
}

// newInit returns the command that creates a Function.
func newInit() *cobra.Command {
	cmd := scaffold.NewCommand()
	cmd.GroupID = groupWork
	return cmd
}

// newConvert returns the command that converts manifests of old versions.
func newConvert() *cobra.Command {
	cmd := convert.NewCommand()
	cmd.GroupID = groupWork
	return cmd
}

// newDev returns the command that runs a folder on this machine.
func newDev(streams Streams) *cobra.Command {
	o := dev.DefaultOptions()
	o.In, o.Out = streams.In, streams.Out
	programs := map[string]*string{}
	cmd := &cobra.Command{
		Use:     "dev [DIR]",
		GroupID: groupWork,
		Short:   "Run the Functions of a folder on this machine, with real events",
		Long: `dev reads the YAML files of a folder, as kubectl apply takes them, and runs its Functions on this machine: with the
eventbridge and the scaler of a cluster, an embedded NATS, and ` + titles() + ` from the PATH. Functions sleep at zero
and wake on the first event or request. A file that changes counts at once.

Events that were not delivered are kept until the next start. Ctrl-C ends everything.`,
		Example: `  rouse dev
  rouse dev samples/orders --publish samples/orders/events/order-received.json
  rouse dev --once --expect expect.yaml
  rouse dev --debug pricing`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Directory = args[0]
			}
			o.Programs = map[string]string{}
			for name, program := range programs {
				o.Programs[name] = *program
			}
			if err := o.Validate(); err != nil {
				return exit.With(exit.Usage, err)
			}
			err := dev.Run(cmd.Context(), o)
			if errors.Is(err, dev.ErrFailed) {
				return exit.Reported(err) // the last line of the run reported it
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVarP(&o.Port, "port", "p", o.Port, "port that events are published to; 8080 if it is free, when 0")
	flags.IntVar(&o.APIRulesPort, "apirules-port", o.APIRulesPort, "port that APIRules are served at; 8070 if it is free, when 0")
	flags.IntVar(&o.DashboardPort, "dashboard-port", o.DashboardPort, "port of the dashboard; 8060 if it is free, when 0")
	flags.BoolVar(&o.Open, "open", o.Open, "open the dashboard in a browser")
	flags.StringArrayVar(&o.Publish, "publish", o.Publish, "file with an event or an array of them (CloudEvents JSON) to publish when everything is up; may be repeated")
	flags.BoolVar(&o.Once, "once", o.Once, "end when the events of --publish or --expect are settled and all Functions asleep; keeps nothing")
	flags.StringVar(&o.Expect, "expect", o.Expect,
		"YAML `file` with events to publish and what they have to cause: emitted events, replies, dead letters; with --once")
	flags.StringSliceVar(&o.Debug, "debug", o.Debug, "Functions that a debugger may attach to, by name or namespace/name; they stay awake")
	flags.BoolVar(&o.Plain, "plain", o.Plain, "print lines instead of a live view; always so when the output is no terminal")
	flags.DurationVar(&o.Cooldown, "cooldown", o.Cooldown, "how long a Function stays awake without work")
	flags.BoolVar(&o.Fresh, "fresh", o.Fresh, "forget the events that an earlier run has left")
	for _, each := range languages.All() {
		programs[each.Name] = flags.String(each.Local.Flag, "", each.Title+" to use instead of that of the PATH")
	}
	flags.StringVar(&o.State, "state", o.State, "folder for what survives a restart; $XDG_STATE_HOME/rouse when empty")
	flags.StringVar(&o.Cache, "cache", o.Cache, "folder for what can be made again; $XDG_CACHE_HOME/rouse when empty")
	return cmd
}

// titles returns the names of the languages.
func titles() string {
	var titles []string
	for _, each := range languages.All() {
		titles = append(titles, each.Title)
	}
	return strings.Join(titles, " and ")
}
