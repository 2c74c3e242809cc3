package cli

import (
	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/migrate"
)

// newMigrate is the command that rewrites manifests of old versions.
func newMigrate() *cobra.Command {
	cmd := migrate.NewCommand()
	cmd.GroupID = groupWork
	return cmd
}
