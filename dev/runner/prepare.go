package runner

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
)

// preparations is how many Functions are prepared at once.
const preparations = 4

// preparation turns a Function into a Launch.
type preparation struct {
	due    bool
	cancel context.CancelFunc // of the one that runs; nil when none does
	doing  string             // what it waits for
	since  time.Time
}

// requestPreparation has a Function prepared, again if need be. It cancels a preparation that runs for an older spec.
func (u *unit) requestPreparation(spec manifest.Function) {
	if u.preparation.cancel != nil && !reflect.DeepEqual(u.spec, spec) {
		u.preparation.cancel()
	}
	u.spec = spec
	u.preparation.due = true
}

// prepare starts the preparation that is due, unless one runs.
func (f *Functions) prepare(ctx context.Context, u *unit) {
	if !u.preparation.due || u.preparation.cancel != nil || u.removed {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	u.preparation = preparation{cancel: cancel}
	spec, inputs := u.spec, f.inputs
	inputs.Debug = f.options.Debug(u.name)
	f.running.Go(func() {
		launch, err := f.launch(ctx, spec, inputs)
		stale := ctx.Err() != nil
		cancel()
		f.update(func() {
			u.preparation.cancel = nil
			if !stale {
				f.prepared(u, spec, launch, err)
			}
		})
	})
}

func (f *Functions) launch(ctx context.Context, spec manifest.Function, in toolchain.Inputs) (toolchain.Launch, error) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
		return f.deps.Launcher.Launch(ctx, spec, in)
	case <-ctx.Done():
		return toolchain.Launch{}, ctx.Err()
	}
}

// Doing notes what the preparation of a Function waits for, empty for nothing.
func (f *Functions) Doing(fn types.NamespacedName, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.units[fn]
	if u == nil || u.preparation.doing == text {
		return
	}
	u.preparation.doing, u.preparation.since = text, time.Now()
	f.announce()
}

// prepared handles the outcome. A version that cannot be prepared leaves the one before as it is.
func (f *Functions) prepared(u *unit, spec manifest.Function, launch toolchain.Launch, err error) {
	if err != nil {
		text := placed(u.spec.At, err.Error())
		var failure *toolchain.Failure
		if errors.As(err, &failure) && failure.Log != "" {
			text += "\n" + strings.TrimSpace(failure.Log)
		}
		if u.unprepared == text && reflect.DeepEqual(u.refused, spec) {
			return // each reading of the folder tries again, and nothing is new
		}
		u.unprepared, u.refused = text, spec
		for line := range strings.SplitSeq(text, "\n") {
			f.logProblem(u, line)
		}
		return
	}
	if u.launch != nil && u.launch.Identity != launch.Identity {
		f.logLine(u, "", process.Rouse, "changed")
	}
	u.launch, u.launched, u.unprepared = &launch, spec, ""
	u.resetFailures() // what crashed may have been mended
	u.setDesired(u.exclusive(), time.Now())
}
