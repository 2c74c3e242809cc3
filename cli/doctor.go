package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/doctor"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// errUnhealthy is returned by an examination that found failures, which are printed.
var errUnhealthy = errors.New("the examination found failures")

func newDoctor(streams Streams) *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this machine, or a cluster, and say what to do",
		Long: `doctor examines this machine and the folder of local mode: interpreters, ports, disks, manifests. With --context it examines a
cluster: versions, KEDA, the parts of Rouse, your rights, certificates, clocks, images, NetworkPolicies, consumers that stand still.

It changes nothing. Each line is ok, a warning or a failure, with what to do. It ends with exit code 1 when there is a failure.`,
		Example: `  rouse doctor
  rouse doctor --dir samples/orders
  rouse doctor --context production -n orders
  rouse doctor --context production -o json`,
		Args: cobra.NoArgs,
	}
	s := ask(streams, cmd, output.JSON, output.YAML)
	cmd.Flags().BoolVar(&strict, "strict", false, "also end with exit code 1 when there is a warning")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := s.examine(cmd.Context())
		if err != nil {
			return err
		}
		if s.forPeople() {
			err = report.Print(s.Out, s.style)
		} else {
			err = output.Write(s.Out, s.format.Chosen, report)
		}
		if err == nil && (report.Failures > 0 || strict && report.Warnings > 0) {
			err = exit.Reported(errUnhealthy)
		}
		return err
	}
	return cmd
}

// examine examines the cluster that the flags name, or this machine.
func (s *session) examine(ctx context.Context) (report doctor.Report, err error) {
	if !s.options.IsCluster() {
		s.reportProgress("looking at this machine")
		defer s.endProgress()
		machine, err := readMachine(ctx, cmp.Or(s.options.Directory, "."))
		if err != nil {
			return doctor.Report{}, err
		}
		return machine.Examine(), nil
	}
	err = s.with(func(conn *target.Connection) error {
		s.reportProgress("looking at " + conn.Name)
		kubernetes, _ := conn.Kubernetes() // the options name a cluster
		cluster, err := doctor.ReadCluster(ctx, conn, kubernetes, func(ctx context.Context) (*target.Client, error) { return bridgeOf(ctx, conn) })
		if err != nil {
			return err
		}
		report = cluster.Examine()
		return nil
	})
	return report, err
}
