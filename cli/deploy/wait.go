package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
)

// pollInterval is the interval at which objects are looked at while they get ready.
const pollInterval = 500 * time.Millisecond

// conditionReady is the condition that all controllers of Rouse write.
const conditionReady = "Ready"

// States of an object.
const (
	Ready   = "ready"
	Waiting = "in progress"
	Failed  = "failed"
)

// State returns the state of an object by the conventions of kstatus, and why it is not ready.
func State(object *unstructured.Unstructured) (state, message string) {
	if object.GetAPIVersion() == "v1" {
		return Ready, ""
	}
	if ready, found := condition(object, conditionReady); !found || ready["status"] == "" {
		return Waiting, "its controller has not looked at it yet"
	}
	found, err := status.Compute(object)
	switch {
	case err != nil:
		return Failed, err.Error()
	case found.Status == status.CurrentStatus:
		return Ready, ""
	case found.Status == status.FailedStatus:
		return Failed, found.Message
	case len(found.Conditions) > 0 && found.Conditions[0].Reason == "LatestGenerationNotObserved":
		return Waiting, "its controller has not looked at it yet"
	}
	return Waiting, found.Message
}

// condition returns a condition of an object.
func condition(object *unstructured.Unstructured, kind string) (fields map[string]any, found bool) {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range all {
		if fields, ok := each.(map[string]any); ok && fields["type"] == kind {
			return fields, true
		}
	}
	return nil, false
}

// builds reports whether the image of a Function is being built.
func builds(object *unstructured.Unstructured) bool {
	built, found := condition(object, v1alpha2.ConditionBuildReady)
	return found && object.GetKind() == kindFunction && built["status"] == "Unknown"
}

// Wait waits until the applied objects are ready, and updates their results. It ends early when one has failed.
func (d *Deployment) Wait(ctx context.Context, results []Result) error {
	logs := d.followBuilds(ctx)
	defer logs.stop()
	for {
		switch pending, failed := d.lookAt(ctx, results, logs); {
		case failed > 0:
			return notReady("not everything is ready", results)
		case pending == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return notReady("not everything is ready after --timeout", results)
			}
			return notReady("stopped waiting; what was applied stays, and goes on", results)
		case <-time.After(cmp.Or(d.Poll, pollInterval)):
		}
	}
}

// lookAt updates the results that are not ready, and counts those that still are not.
func (d *Deployment) lookAt(ctx context.Context, results []Result, logs *buildLogs) (pending, failed int) {
	for i := range results {
		result := &results[i]
		if result.applied == nil || result.State == Ready {
			continue
		}
		d.look(ctx, result)
		switch result.State {
		case Ready:
		case Failed:
			failed++
		default:
			pending++
			d.Progress(fmt.Sprintf("waiting for %s: %s", result.Ref, firstLine(result.Message)))
		}
		if builds(result.applied) {
			logs.follow(result.Ref)
		}
	}
	return pending, failed
}

// look updates a result with what the cluster has. A cluster that does not answer for a moment changes nothing.
func (d *Deployment) look(ctx context.Context, result *Result) {
	found, err := d.Cluster.Get(ctx, resourceOf(result.applied.GroupVersionKind()), result.Namespace, result.Name)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			result.Message = err.Error()
		} else if result.State == "" {
			result.State, result.Message = State(result.applied)
		}
		return
	case found == nil || found.GetUID() != result.applied.GetUID():
		result.State, result.Message = Failed, "it was deleted meanwhile"
		return
	case found.GetGeneration() > result.applied.GetGeneration():
		result.State, result.Message = Failed, fmt.Sprintf("superseded by generation %d: somebody has changed it meanwhile", found.GetGeneration())
		return
	}
	result.applied = found
	result.State, result.Message = State(found)
}

// notReady returns an error with what each object lacks, and where to look.
func notReady(text string, results []Result) error {
	var lines strings.Builder
	for _, result := range results {
		if result.State != Ready && result.applied != nil {
			fmt.Fprintf(&lines, "\n  %s %s:", result.Ref, cmp.Or(result.State, Waiting))
			for line := range strings.Lines(strings.TrimSpace(result.Message) + "\n" + result.next()) {
				lines.WriteString("\n    " + output.Clean(strings.TrimSuffix(line, "\n")))
			}
		}
	}
	return exit.Errorf(exit.Failed, "%s:%s\ndeploy again once that is solved", text, lines.String())
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return first
}

// buildLogs follows the builds of Functions.
type buildLogs struct {
	deployment *Deployment
	ctx        context.Context //nolint:containedctx // of the one wait that it belongs to
	cancel     context.CancelFunc
	readers    sync.WaitGroup
	known      map[Ref]bool
	mu         sync.Mutex
}

func (d *Deployment) followBuilds(ctx context.Context) *buildLogs {
	ctx, cancel := context.WithCancel(ctx)
	return &buildLogs{deployment: d, ctx: ctx, cancel: cancel, known: map[Ref]bool{}}
}

// follow shows the log of a Function's build from now on. Who may not read it waits without it.
func (l *buildLogs) follow(ref Ref) {
	if l.known[ref] {
		return
	}
	l.known[ref] = true
	l.readers.Go(func() {
		err := l.deployment.Cluster.BuildLog(l.ctx, ref.Namespace, ref.Name, func(line target.Line) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.deployment.Log(line)
		})
		if err != nil && l.ctx.Err() == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.deployment.Note(fmt.Sprintf("the log of %s's build cannot be shown: %s", ref, err))
		}
	})
}

func (l *buildLogs) stop() {
	l.cancel()
	l.readers.Wait()
}
