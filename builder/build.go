package builder

import (
	"time"

	"github.com/rouse-run/rouse/internal/build"
)

// Builder does the steps of one plan.
type Builder struct {
	o    Options
	deps Deps
	ca   []byte
	env  []string
}

// New returns a builder that has touched nothing yet.
func New(o Options, deps Deps) *Builder { return &Builder{o: o, deps: deps} }

// functionDir is where the Function's directory is in the image of a plan.
func functionDir(plan build.Plan) string { return build.FunctionDir(languageOf(plan).python) }

// phase logs how long a part of a step took.
func (b *Builder) phase(name string, work func() error) error {
	start := time.Now()
	err := work()
	b.deps.Log.Info("ended a phase", "phase", name, "seconds", seconds(start), "succeeded", err == nil)
	return err
}

func seconds(since time.Time) float64 {
	return float64(time.Since(since).Milliseconds()) / 1000
}
