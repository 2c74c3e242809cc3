package builder

import "time"

// Builder does the steps of one plan.
type Builder struct {
	o    Options
	deps Deps
	ca   []byte
	env  []string
}

// New returns a builder that has touched nothing yet.
func New(o Options, deps Deps) *Builder { return &Builder{o: o, deps: deps} }

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
