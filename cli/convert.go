package cli

import (
	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/convert"
)

// newConvert is the command that converts manifests of old versions.
func newConvert() *cobra.Command {
	cmd := convert.NewCommand()
	cmd.GroupID = groupWork
	return cmd
}
