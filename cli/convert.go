package cli

import (
	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/convert"
)

// newConvert is the command that writes Functions of v1alpha1 as v1alpha2.
func newConvert() *cobra.Command {
	cmd := convert.NewCommand()
	cmd.GroupID = groupWork
	return cmd
}
