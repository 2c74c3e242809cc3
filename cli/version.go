package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/internal/daemon"
)

func newVersion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(streams.Out, "rouse", daemon.Version())
			return err
		},
	}
}
