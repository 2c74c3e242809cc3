package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/cli/deploy"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// defaultDeployTimeout allows for a first build.
const defaultDeployTimeout = 5 * time.Minute

// folderVerb is a command that brings a folder into a cluster, or out of it.
type folderVerb struct {
	*session

	source  deploy.Source
	dry     dryRun
	prune   bool
	wait    bool
	force   bool
	timeout time.Duration
}

// newFolderVerb adds the flags that all commands on folders share.
func newFolderVerb(streams Streams, cmd *cobra.Command, formats ...output.Format) *folderVerb {
	v := &folderVerb{session: askCluster(streams, cmd, formats...)}
	cmd.GroupID = groupWork
	cmd.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	cmd.Flags().StringVar(&v.source.Name, "name", "", "name that identifies the folder, when it lies at another path elsewhere (default: made of its path)")
	return v
}

func newDeploy(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deploy [DIR]",
		Short: "Bring the Functions of a folder into a cluster, and wait until they are ready",
		Long: `deploy reads a folder as dev does, and applies its Functions, Subscriptions, Schedules, Doors, APIRules, ConfigMaps and
Secrets to a cluster, by server-side apply. What is for this machine alone, .env and *.local.yaml, stays here. All objects are tried
first: if the cluster refuses one, nothing is changed.

Then it waits until all are ready, with the log of builds, and prints a line for each. When one cannot become ready the message says
why. A deploy that was interrupted is completed by the next one.

--prune also deletes what earlier deploys of this folder made in its namespaces and the folder does not have any more; never Secrets.`,
		Example: `  rouse deploy --context staging
  rouse deploy orders --context staging -n orders --dry-run
  rouse deploy orders --context staging --prune --timeout 10m`,
		Args: atMostOne,
	}
	v := newFolderVerb(streams, cmd, output.JSON, output.YAML, output.Name)
	fs := cmd.Flags()
	fs.SortFlags = false
	v.dry.add(fs)
	fs.BoolVar(&v.prune, "prune", false, "also delete what this folder deployed before and does not have any more")
	fs.BoolVar(&v.wait, "wait", true, "wait until all objects are ready")
	fs.DurationVar(&v.timeout, "timeout", defaultDeployTimeout, "how long to wait")
	fs.BoolVar(&v.force, "force-conflicts", false, "take over fields that others own, such as kubectl apply or Flux")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return v.withFolder(args, func(d *deploy.Deployment, conn *target.Connection) error { return v.deploy(cmd.Context(), d, conn) })
	}
	return cmd
}

// dryRun is the flag --dry-run, as kubectl has it.
type dryRun struct{ on bool }

func (d *dryRun) add(fs *pflag.FlagSet) {
	fs.Var(d, "dry-run", "let the cluster try it, and change nothing")
	fs.Lookup("dry-run").NoOptDefVal = "server"
}

// String implements pflag.Value.
func (d *dryRun) String() string {
	if d.on {
		return "server"
	}
	return "none"
}

// Type implements pflag.Value.
func (d *dryRun) Type() string { return "server|none" }

// Set implements pflag.Value.
func (d *dryRun) Set(text string) error {
	switch text {
	case "server", "true":
		d.on = true
	case "none", "false":
		d.on = false
	default:
		return errors.New("use server or none")
	}
	return nil
}

// withFolder reads the folder, and opens the cluster.
func (v *folderVerb) withFolder(args []string, do func(d *deploy.Deployment, conn *target.Connection) error) error {
	return v.withObjects(func(conn *target.Connection, objects *target.Objects) error {
		v.from(args, conn)
		folder, err := v.load()
		if err != nil {
			return err
		}
		if len(folder.Left) > 0 {
			v.note("left out, for kubectl: %s", output.Clean(strings.Join(folder.Left, ", ")))
		}
		return do(v.deploymentOf(folder, objects), conn)
	})
}

// from sets the folder of the command.
func (v *folderVerb) from(args []string, conn *target.Connection) {
	v.source.Directory, v.source.Namespace, v.source.Only = ".", conn.Namespace, v.options.Namespace != ""
	if len(args) > 0 {
		v.source.Directory = args[0]
	}
}

// load reads the folder and reports its problems.
func (v *folderVerb) load() (deploy.Folder, error) {
	folder, problems, err := deploy.Load(v.source)
	for _, problem := range problems {
		v.note("%s", output.Clean(problem))
	}
	return folder, err
}

func (v *folderVerb) deploymentOf(folder deploy.Folder, objects *target.Objects) *deploy.Deployment {
	return &deploy.Deployment{
		Cluster: objects, Folder: folder, Force: v.force,
		Note:     func(text string) { v.note("%s", output.Clean(text)) },
		Progress: func(text string) { v.reportProgress(text) },
		Log:      v.buildLine,
	}
}

// buildLine writes a line of a build's log.
func (v *folderVerb) buildLine(line target.Line) {
	style := output.StyleOf(v.Err)
	v.note("%s %s", style.Paint(colorOf(line.Function), line.Function+" "+line.Replica), output.Clean(line.Text))
}

func (v *folderVerb) deploy(ctx context.Context, d *deploy.Deployment, conn *target.Connection) error {
	changes, err := d.Check(ctx)
	if err != nil {
		return err
	}
	if v.dry.on {
		return v.tryDeploy(ctx, d, changes)
	}
	results, err := d.Apply(ctx, changes)
	if err == nil && v.wait {
		err = v.await(ctx, func(ctx context.Context) error { return d.Wait(ctx, results) })
	}
	if err == nil && v.prune {
		var pruned []deploy.Result
		pruned, err = v.pruneLeftovers(ctx, d)
		results = append(results, pruned...)
	}
	if err == nil {
		deploy.SetAddresses(results, conn.Exposed(ctx, ""))
	}
	v.endProgress()
	return cmp.Or(v.writeResults(results), err)
}

// await calls wait with the timeout of the command.
func (v *folderVerb) await(ctx context.Context, wait func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	return wait(ctx)
}

// tryDeploy prints what a deploy would do.
func (v *folderVerb) tryDeploy(ctx context.Context, d *deploy.Deployment, changes []deploy.Change) error {
	var results []deploy.Result
	for _, change := range changes {
		results = append(results, deploy.Result{Ref: change.Object.Ref(), Action: change.Action()})
	}
	if v.prune {
		left, err := d.Leftovers(ctx)
		if err != nil {
			return err
		}
		for _, ref := range left {
			results = append(results, deploy.Result{Ref: ref, Action: deploy.Deleted})
		}
	}
	v.endProgress()
	return v.writeResults(results)
}

func (v *folderVerb) pruneLeftovers(ctx context.Context, d *deploy.Deployment) ([]deploy.Result, error) {
	left, err := d.Leftovers(ctx)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	names := make([]string, len(left))
	for i, ref := range left {
		names[i] = ref.Namespace + "/" + ref.String()
	}
	v.note("deleting what the folder does not have any more: %s", strings.Join(names, ", "))
	return d.Delete(ctx, left, false)
}

// writeResults writes a line for each object.
func (v *folderVerb) writeResults(results []deploy.Result) error {
	if written, err := writeList(v.session, results, func(each deploy.Result) any { return each.Ref }); written {
		return err
	}
	if len(results) == 0 {
		return nil
	}
	header := []string{"NAMESPACE", "OBJECT", "RESULT", "STATE", "ADDRESS"}
	if v.dry.on || !slices.ContainsFunc(results, func(r deploy.Result) bool { return r.State != "" || r.Address != "" }) {
		header = header[:3]
	}
	table := output.NewTable(header...)
	for _, each := range results {
		action := each.Action
		if v.dry.on {
			action += " (dry run)"
		}
		cells := []any{cmp.Or(each.Namespace, "-"), v.style.Name(each.String()), action, v.state(each.State), each.Address}
		table.Row(cells[:len(header)]...)
	}
	return table.Flush(v.Out)
}

func (v *folderVerb) state(state string) output.Styled {
	switch state {
	case deploy.Ready:
		return v.style.Good(state)
	case deploy.Failed:
		return v.style.Bad(state)
	}
	return v.style.Busy(state)
}

func newDelete(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete [DIR]",
		Short: "Delete the objects of a folder from a cluster",
		Long: `delete takes the objects of a folder out of a cluster, in the reverse order of deploy. Namespaces stay, and so does what the cluster has
besides. Events that wait for a deleted Subscription are lost.

--prune also deletes what earlier deploys of this folder made in its namespaces and the folder does not have any more; never Secrets.`,
		Example: `  rouse delete orders --context staging --dry-run
  rouse delete orders --context staging --prune`,
		Args: atMostOne,
	}
	v := newFolderVerb(streams, cmd, output.JSON, output.YAML, output.Name)
	fs := cmd.Flags()
	fs.SortFlags = false
	v.dry.add(fs)
	fs.BoolVar(&v.prune, "prune", false, "also delete what this folder deployed before and does not have any more")
	fs.BoolVar(&v.wait, "wait", true, "wait until the objects are gone")
	fs.DurationVar(&v.timeout, "timeout", time.Minute, "how long to wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return v.withFolder(args, func(d *deploy.Deployment, _ *target.Connection) error { return v.delete(cmd.Context(), d) })
	}
	return cmd
}

func (v *folderVerb) delete(ctx context.Context, d *deploy.Deployment) error {
	refs := d.Objects()
	if v.prune {
		left, err := d.Leftovers(ctx)
		if err != nil {
			return err
		}
		refs = append(left, refs...)
	}
	results, err := d.Delete(ctx, refs, v.dry.on)
	if err == nil && v.wait && !v.dry.on {
		err = v.await(ctx, func(ctx context.Context) error { return d.AwaitGone(ctx, results) })
	}
	v.endProgress()
	if err == nil && len(results) == 0 && v.forPeople() {
		v.note("the cluster has none of the folder's objects")
	}
	return cmp.Or(v.writeResults(results), err)
}

func newDiff(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [DIR]",
		Short: "Show what deploy would change in a cluster",
		Long: `diff lets the cluster try what deploy would apply, and prints the differences. Values of Secrets are masked.

The exit code is 0 without differences and 1 with some, as that of kubectl diff; errors have the others.`,
		Example: `  rouse diff --context staging
  rouse diff orders --context staging --prune`,
		Args: atMostOne,
	}
	v := newFolderVerb(streams, cmd)
	cmd.Flags().BoolVar(&v.prune, "prune", false, "also show what deploy --prune would delete")
	cmd.Flags().BoolVar(&v.force, "force-conflicts", false, "as deploy --force-conflicts would do it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		differs := false
		err := v.withFolder(args, func(d *deploy.Deployment, _ *target.Connection) (err error) {
			differs, err = v.diff(cmd.Context(), d)
			return err
		})
		switch {
		case exit.CodeOf(err) == exit.Failed: // which means that there are differences
			return exit.With(exit.Refused, err)
		case err == nil && differs:
			return exit.Reported(errors.New("there are differences"))
		}
		return err
	}
	return cmd
}

func (v *folderVerb) diff(ctx context.Context, d *deploy.Deployment) (differs bool, err error) {
	changes, err := d.Check(ctx)
	if err != nil {
		return false, err
	}
	texts := make([]string, 0, len(changes))
	for _, change := range changes {
		text, err := change.Diff()
		if err != nil {
			return false, err
		}
		texts = append(texts, text)
	}
	if v.prune {
		deleted, err := d.DiffLeftovers(ctx)
		if err != nil {
			return false, err
		}
		texts = append(texts, deleted...)
	}
	v.endProgress()
	for _, text := range texts {
		if _, err := fmt.Fprint(v.Out, v.coloured(text)); err != nil {
			return false, err
		}
		differs = differs || text != ""
	}
	return differs, nil
}

// coloured marks the lines of a diff.
func (v *folderVerb) coloured(diff string) string {
	var text strings.Builder
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		styled := output.Styled(output.Clean(line))
		switch {
		case strings.HasPrefix(line, "-"):
			styled = v.style.Bad(line)
		case strings.HasPrefix(line, "+"):
			styled = v.style.Good(line)
		case strings.HasPrefix(line, "@@"):
			styled = v.style.Dim(line)
		}
		text.WriteString(string(styled) + "\n")
	}
	return text.String()
}
