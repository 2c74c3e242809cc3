package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is the command by which releases make their pages for man. It is hidden: people get the pages with an archive.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write a page for man of each command into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o750); err != nil {
				return fmt.Errorf("make the directory of pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it has a date
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "ROUSE", Section: "1", Source: "Rouse " + root.Version, Manual: "Rouse", Date: new(time.Unix(0, 0).UTC()),
			}, args[0])
		},
	}
}
