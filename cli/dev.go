package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/dev"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// newDev is the command that runs a folder on this machine.
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
				return exit.Reported(err) // by the last line of the run
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVarP(&o.Port, "port", "p", o.Port, "port that events are published to; 8080 if it is free, when 0")
	flags.IntVar(&o.APIRulesPort, "apirules-port", o.APIRulesPort, "port that APIRules are served at; 8070 if it is free, when 0")
	flags.StringArrayVar(&o.Publish, "publish", o.Publish, "file with an event or an array of them (CloudEvents JSON) to publish when everything is up; may be repeated")
	flags.BoolVar(&o.Once, "once", o.Once, "end when the events of --publish are settled and all Functions asleep; keeps nothing")
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

// titles lists the languages as people write them.
func titles() string {
	var titles []string
	for _, each := range languages.All() {
		titles = append(titles, each.Title)
	}
	return strings.Join(titles, " and ")
}
