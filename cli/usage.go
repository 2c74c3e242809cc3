package cli

import (
	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
)

// judgeArguments has every command, also those that cobra brings, end with Usage when its arguments are wrong.
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
