package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rouse-run/rouse/cli/deploy"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dev/manifest"
)

// syncPoll is the interval at which objects are looked at while somebody waits for what was just saved.
const syncPoll = 50 * time.Millisecond

// syncVerb keeps a copy of a folder in a cluster for development.
type syncVerb struct {
	*folderVerb

	watch   bool
	objects *target.Objects
	// applied has the objects as they were applied last, and built what was said about builds.
	applied map[deploy.Ref]deploy.Object
	built   map[string]bool
	waiting []awaited
}

// awaited is an applied object that is not ready yet.
type awaited struct {
	deploy.Result

	saved time.Time
}

func newSync(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync [DIR]",
		Short: "Bring a folder into a cluster for development, without builds where that is possible; --watch does it at each save",
		Long: `sync applies a folder as deploy does, but packs the files of each Function into its inline source, which pods get without a build:
as one script with all that the handler imports, or as a handler that brings its files along. Dependencies are built when they change.
Languages that compile to a binary, Git sources, and what is too large or read at run time are built as by deploy; sync says so.

With --watch each save is applied at once, objects that have changed alone, and a line says when the new version answers. Ctrl-C ends that.
Then the cluster has what was saved last; deploy brings it there as files again.`,
		Example: `  rouse sync --watch --context staging -n me
  rouse sync orders --context staging -n me`,
		Args: atMostOne,
	}
	v := &syncVerb{folderVerb: newFolderVerb(streams, cmd), applied: map[deploy.Ref]deploy.Object{}, built: map[string]bool{}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&v.watch, "watch", "w", false, "go on until Ctrl-C, and apply each change of the folder")
	fs.DurationVar(&v.timeout, "timeout", defaultDeployTimeout, "how long to wait for a version")
	fs.BoolVar(&v.force, "force-conflicts", false, "take over fields that others own, such as kubectl apply or Flux")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return v.withObjects(func(conn *target.Connection, objects *target.Objects) error {
			v.from(args, conn)
			v.objects = objects
			if !v.watch {
				return v.round(cmd.Context(), time.Now())
			}
			return v.follow(cmd.Context())
		})
	}
	return cmd
}

// follow applies the folder now and after each change, until ctx ends. A change ends the wait for what it replaces.
func (v *syncVerb) follow(ctx context.Context) error {
	saved := make(chan time.Time, 1)
	saved <- time.Now()
	watch, err := manifest.BeginWatch(v.source.Directory, func() {
		select {
		case saved <- time.Now():
		default: // it is read anyway
		}
	})
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	failed := make(chan error, 1)
	go func() { failed <- watch(ctx) }()
	var rounds sync.WaitGroup
	defer rounds.Wait()
	end := func() {}
	defer func() { end() }()
	for {
		select {
		case err := <-failed:
			return err
		case at := <-saved:
			end()
			rounds.Wait()
			round, cancel := context.WithCancel(ctx)
			end = cancel
			rounds.Go(func() { v.report(round, v.round(round, at)) })
		}
	}
}

// report says what went wrong in a round; the next save may put it right.
func (v *syncVerb) report(ctx context.Context, err error) {
	v.endProgress()
	if err != nil && ctx.Err() == nil {
		v.note("%s", output.Clean(err.Error()))
	}
}

// round applies what has changed, and waits until it is ready.
func (v *syncVerb) round(ctx context.Context, since time.Time) error {
	folder, err := v.load()
	if err != nil {
		return err
	}
	folder, copied, err := folder.Copy(ctx)
	if err != nil {
		return err
	}
	for _, text := range copied.Built {
		if !v.built[text] {
			v.built[text] = true
			v.note("%s", output.Clean(text))
		}
	}
	d := v.deploymentOf(folder, v.objects)
	d.Poll = syncPoll
	changes, err := v.changesOf(ctx, d)
	if err != nil {
		return err
	}
	results, err := d.Apply(ctx, changes)
	for i := range results {
		v.applied[results[i].Ref] = changes[i].Object
		v.waiting = slices.DeleteFunc(v.waiting, func(a awaited) bool { return a.Ref == results[i].Ref })
		v.waiting = append(v.waiting, awaited{results[i], since})
	}
	return errors.Join(err, v.settle(ctx, d))
}

// settle waits until the applied objects are ready. What is not when ctx ends is waited for again in the next round.
func (v *syncVerb) settle(ctx context.Context, d *deploy.Deployment) error {
	results := make([]deploy.Result, len(v.waiting))
	for i := range v.waiting {
		results[i] = v.waiting[i].Result
	}
	err := v.await(ctx, func(ctx context.Context) error { return d.Wait(ctx, results) })
	v.endProgress()
	var left []awaited
	for i, result := range results {
		switch result.State {
		case deploy.Ready:
			err = errors.Join(v.tell(result, time.Since(v.waiting[i].saved)), err)
		case deploy.Failed, "": // the error says why; a namespace is never waited for
		default:
			left = append(left, awaited{result, v.waiting[i].saved})
		}
	}
	v.waiting = left
	return err
}

// changesOf returns the objects that differ from those that were applied last. The first time all are tried first, as by a deploy; later the
// cluster refuses each by itself.
func (v *syncVerb) changesOf(ctx context.Context, d *deploy.Deployment) ([]deploy.Change, error) {
	if len(v.applied) == 0 {
		return d.Check(ctx)
	}
	var changes []deploy.Change
	for _, object := range d.Folder.Objects {
		before, known := v.applied[object.Ref()]
		switch {
		case !known:
			changes = append(changes, deploy.Change{Object: object})
		case !equality.Semantic.DeepEqual(before.Object.Object, object.Object.Object):
			changes = append(changes, deploy.Change{Object: object, Live: before.Unstructured})
		}
	}
	return changes, nil
}

// tell writes a line for an object that has changed and is ready.
func (v *syncVerb) tell(result deploy.Result, took time.Duration) error {
	if result.Action == deploy.Unchanged {
		return nil
	}
	text := "is applied"
	if result.Kind == "Function" {
		text = "answers with what was saved"
	}
	_, err := fmt.Fprintf(v.Out, "%s %s after %s\n", result.Ref, text, took.Round(10*time.Millisecond))
	return err
}
