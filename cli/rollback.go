package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// rollback is the command of that name.
type rollback struct {
	*session

	to      string
	forward bool
	list    bool
	timeout time.Duration
}

func newRollback(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback FUNCTION",
		Short: "Serve an earlier version of a Function, or the newest again",
		Long: `rollback has a Function serve an earlier version without a build, by its annotation rouse.run/rollback-to, and waits until it does.
Environment, resources and replicas remain those of the spec. --forward returns to the newest version. --list shows the versions.

Where Git is applied to the cluster, set the annotation there, too.`,
		Example: `  rouse rollback pricing --context staging -n orders
  rouse rollback pricing --context staging -n orders --to 3f9c01d2ab
  rouse rollback pricing --context staging -n orders --forward`,
		Args: exactly(1, "the Function"),
	}
	r := &rollback{session: askCluster(streams, cmd, output.JSON, output.YAML, output.Name)}
	cmd.ValidArgsFunction = once(r.complete(functionNames))
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&r.to, "to", "", "version to serve (default: the one before)")
	fs.BoolVar(&r.forward, "forward", false, "serve the newest version again")
	fs.BoolVar(&r.list, "list", false, "list the versions, and change nothing")
	fs.DurationVar(&r.timeout, "timeout", time.Minute, "how long to wait until the version serves")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if r.to != "" && r.forward || r.list && (r.to != "" || r.forward) {
			return exit.Errorf(exit.Usage, "--to, --forward and --list exclude each other")
		}
		return r.withObjects(func(conn *target.Connection, objects *target.Objects) error {
			return r.run(cmd.Context(), conn, objects, args[0])
		})
	}
	return cmd
}

func (r *rollback) run(ctx context.Context, conn *target.Connection, objects *target.Objects, text string) error {
	namespace, name, err := r.function(conn, text)
	if err != nil {
		return err
	}
	r.reportProgress("looking for the versions of Function " + name)
	fn, err := conn.Find(ctx, namespace, name)
	if err != nil {
		return err
	}
	now, err := objects.Details(ctx, fn.Namespace, fn.Name)
	if err != nil {
		return err
	}
	versions, err := objects.Versions(ctx, fn.Namespace, fn.Name)
	if err != nil {
		return err
	}
	if r.list {
		r.endProgress()
		return r.writeVersions(now, versions)
	}
	wanted := ""
	if !r.forward {
		if wanted, err = target.ChooseVersion(now, versions, r.to); err != nil {
			return err
		}
	}
	r.reportProgress("waiting for the version of Function " + name)
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	served, err := objects.RollBack(ctx, fn.Namespace, fn.Name, wanted)
	if err != nil {
		return err
	}
	r.endProgress()
	_, err = fmt.Fprintf(r.Out, "function/%s serves version %s\n", fn.Name, output.Clean(served))
	return err
}

func (r *rollback) writeVersions(now target.Details, versions []target.Version) error {
	if written, err := writeList(r.session, versions, func(each target.Version) any { return each.Name }); written {
		return err
	}
	return versionTable(now, versions).Flush(r.Out)
}

// versionTable lists versions, and says which runs.
func versionTable(now target.Details, versions []target.Version) *output.Table {
	table := output.NewTable("VERSION", "SINCE", "PODS", "")
	for _, version := range versions {
		remark := ""
		switch {
		case version.Name != now.Version:
		case now.RollbackTo != "":
			remark = "runs, by a rollback to " + now.RollbackTo
		default:
			remark = "runs"
		}
		table.Row(version.Name, ago(version.Since, time.Now()), version.Pods, remark)
	}
	return table
}
