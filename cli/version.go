package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/internal/daemon"
)

func newVersion(streams Streams) *cobra.Command {
	format := output.Choices{Allowed: []output.Format{output.JSON, output.YAML}}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was made of",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format.Chosen != output.Text {
				return output.Write(streams.Out, format.Chosen, daemon.ThisBuild())
			}
			_, err := fmt.Fprintln(streams.Out, "rouse", daemon.ThisBuild())
			return err
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "write for programs: "+format.Names())
	return cmd
}
