package cli

import "github.com/spf13/cobra"

// helpTopicExitCodes is `rouse help exit-codes`.
func helpTopicExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `Every command ends with one of these:

  0  it worked
  1  it did not work, for a reason that has no code of its own; dev --once: something went wrong with an event or a Function
  2  the command line is wrong, or a file or folder that it names; the message names the flag or argument
  3  what was asked for does not exist: a Function, an event, a dead letter
  4  there is nothing to talk to: no local mode runs, the cluster does not answer or lets you not in
  5  refused: the event was not taken, or the Function answered with an error`,
	}
}
