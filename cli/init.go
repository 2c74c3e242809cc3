package cli

import (
	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/scaffold"
)

// newInit is the command that begins a Function.
func newInit() *cobra.Command {
	cmd := scaffold.NewCommand()
	cmd.GroupID = groupWork
	return cmd
}
