package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Plain prints a line for each change, until the context ends or a write to out fails:
//
//	14:03:24.592 function pricing    waking, 1 waits
//	14:03:24.905 log      pricing    hello
//	14:03:24.911 event    order.received 1001 shop → pricing: delivered 200, took 6 ms, waited 312 ms
//
// The first two columns are time and kind: rouse, problem, function, apirule, log, event, retry or dead.
func Plain(ctx context.Context, source Source, out io.Writer) error {
	return plain{out: out, location: time.Local, now: time.Now}.run(ctx, source)
}

// PrintLine prints a message about local mode in the format of Plain.
func PrintLine(out io.Writer, text string) error {
	return plain{out: out, location: time.Local}.write(time.Now(), "rouse", clean(text))
}

// plain prints the lines of a run.
type plain struct {
	out      io.Writer
	location *time.Location
	now      func() time.Time // for changes of the state; records and lines have timestamps
}

func (p plain) write(at time.Time, kind, text string) error {
	line := at.In(p.location).Format(preciseClock) + " " + fit(kind, 8) + " " + strings.TrimRight(text, " ") + "\n"
	if _, err := io.WriteString(p.out, line); err != nil {
		return fmt.Errorf("print a line: %w", err)
	}
	return nil
}

func (p plain) run(ctx context.Context, source Source) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	printer := newPrinter(p, cancel)
	group.Go(func() error {
		source.FollowState(ctx, printer.state)
		return nil
	})
	group.Go(func() error {
		source.FollowEvents(ctx, printer.event)
		return nil
	})
	group.Go(func() error {
		source.FollowLines(ctx, printer.line)
		return nil
	})
	err := group.Wait()
	if err == nil {
		err = printer.err
	}
	return err
}

// printer prints changes only: it holds what it printed before.
type printer struct {
	plain

	failed func() // ends the run

	mutex     sync.Mutex
	err       error
	publish   string
	naming    naming
	width     int // of the longest name so far
	functions map[types.NamespacedName]Function
	apiRules  map[hostKey]APIRule
	problems  map[string]bool
}

func newPrinter(p plain, failed func()) *printer {
	return &printer{plain: p, failed: failed, functions: map[types.NamespacedName]Function{}, problems: map[string]bool{}}
}

// print prints a line. The caller holds the lock.
func (p *printer) print(at time.Time, kind, text string) {
	if p.err != nil {
		return
	}
	if p.err = p.write(at, kind, text); p.err != nil {
		p.failed()
	}
}

// named returns a text about a Function, with all names in one column.
func (p *printer) named(name, text string) string {
	p.width = min(max(p.width, len(name)), widestName)
	return name + strings.Repeat(" ", max(0, p.width-len(name))) + "  " + text
}

func (p *printer) state(s State) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	s = cleanState(s)
	at := p.now()
	p.naming = namingOf(s.Functions)
	for _, f := range s.Functions {
		p.width = min(max(p.width, len(p.naming.of(f.Namespace, f.Name))), widestName)
	}
	p.where(at, s)
	p.wrong(at, s.Problems)
	there := map[types.NamespacedName]Function{}
	for _, f := range s.Functions {
		there[f.key()] = f
		p.changed(at, f)
	}
	for key := range p.functions {
		if _, ok := there[key]; !ok {
			p.print(at, "function", p.named(p.naming.of(key.Namespace, key.Name), "gone"))
		}
	}
	p.functions = there
	p.exposed(at, s.APIRules)
}

// hostKey identifies an APIRule or a Door.
type hostKey struct{ kind, namespace, name string }

// exposed prints new and changed URLs of APIRules and Doors.
func (p *printer) exposed(at time.Time, apiRules []APIRule) {
	there := map[hostKey]APIRule{}
	for _, r := range apiRules {
		key := hostKey{strings.ToLower(cmp.Or(r.Kind, "apirule")), r.Namespace, r.Name}
		there[key] = r
		if before, known := p.apiRules[key]; !known || before.URL != r.URL {
			p.print(at, key.kind, p.named(p.naming.of(r.Namespace, r.Name), sentence(cmp.Or(r.URL, "not served"), from(r.At.String()))))
		}
	}
	for key := range p.apiRules {
		if _, ok := there[key]; !ok {
			p.print(at, key.kind, p.named(p.naming.of(key.namespace, key.name), "gone"))
		}
	}
	p.apiRules = there
}

func (p *printer) where(at time.Time, s State) {
	if s.Publish == p.publish {
		return
	}
	p.publish = s.Publish
	p.print(at, "rouse", s.Directory+": publish to "+s.Publish)
	if s.Admin != "" {
		p.print(at, "rouse", "admin API at "+s.Admin)
	}
	if s.Dashboard != "" {
		p.print(at, "rouse", "dashboard at "+s.Dashboard)
	}
}

// wrong prints new problems, and the end of the last one.
func (p *printer) wrong(at time.Time, problems []manifest.Problem) {
	there := map[string]bool{}
	for _, problem := range problems {
		text := problem.Error()
		there[text] = true
		if p.problems[text] {
			continue
		}
		if problem.Warning {
			text = "warning: " + text
		}
		p.print(at, "problem", text)
	}
	if len(there) == 0 && len(p.problems) > 0 {
		p.print(at, "rouse", "no problems any more")
	}
	p.problems = there
}

// changed prints a change of a Function. It ignores the backlog; errors are printed as lines.
func (p *printer) changed(at time.Time, f Function) {
	before, known := p.functions[f.key()]
	name := p.naming.of(f.Namespace, f.Name)
	switch {
	case !known:
		p.print(at, "function", p.named(name, sentence(phaseOf(f), f.Runtime, f.URL, from(f.At.String()))))
	case before.Phase != f.Phase, before.Ready != f.Ready && max(before.Ready, f.Ready) > 1: // of a single replica the phase says enough
		p.print(at, "function", p.named(name, phaseOf(f)))
	}
	if f.Debug != "" && f.Debug != before.Debug {
		p.print(at, "function", p.named(name, "debugger at "+f.Debug))
	}
}

func from(position string) string {
	if position == "" {
		return ""
	}
	return "from " + position
}

func phaseOf(f Function) string {
	var replicas, waiting, took string
	if f.Ready > 1 || f.Desired > 1 {
		replicas = fmt.Sprintf("%d of %d replicas", f.Ready, f.Desired)
	}
	if f.Backlog > 0 {
		waiting = counted(f.Backlog, "event waits", "events wait")
	}
	if f.Phase == runner.Ready && f.LastWake > 0 {
		took = "woke in " + duration(f.LastWake)
	}
	return sentence(f.Phase, replicas, waiting, took)
}

func (p *printer) line(l process.Line) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	l = cleanLine(l)
	if l.Function == "" {
		p.print(l.Time, "rouse", l.Text)
		return
	}
	text := l.Text
	if l.Problem {
		p.print(l.Time, "problem", p.named(p.naming.of(l.Namespace, l.Function), text))
		return
	}
	if l.Stream != process.Stdout {
		text = l.Stream + ": " + text
	}
	p.print(l.Time, "log", p.named(p.naming.of(l.Namespace, l.Function), text))
}

func (p *printer) event(r journal.Record) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	r = cleanRecord(r)
	kind, text := "event", ""
	switch r.Kind {
	case journal.Skipped:
		p.print(r.Time, "rouse", counted(r.Count, "event record was", "event records were")+" left out")
		return
	case journal.Retry:
		kind, text = "retry", trouble(r, p.location)
	case journal.DeadLettered:
		kind, text = "dead", trouble(r, p.location)
	case journal.Delivered:
		text = sentence("delivered "+status(r), "took "+duration(r.Took), waited(r))
	default:
		text = string(r.Kind)
	}
	if r.Kind == journal.Stored && r.Cause != "" {
		text += ", caused by " + r.Cause
	}
	if unwanted(r) {
		text += "; " + trouble(r, p.location)
	}
	p.print(r.Time, kind, r.Type+" "+r.ID+" "+p.naming.route(r)+": "+text)
}

// waited returns the time between the store of an event and its first attempt.
func waited(r journal.Record) string {
	if r.Attempt > 1 || r.Stored.IsZero() || r.Began.IsZero() {
		return ""
	}
	return "waited " + duration(max(0, r.Began.Sub(r.Stored)))
}
