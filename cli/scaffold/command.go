package scaffold

import (
	"github.com/spf13/cobra"
)

// NewCommand is `rouse init`.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init NAME",
		Short: "Write the files of a new Function",
		Args:  cobra.ExactArgs(1),
		RunE:  func(*cobra.Command, []string) error { return nil },
	}
}
