package trace

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Text shows a tree to people: a line for each event, delivery and attempt, behind the time since the first event.
func Text(root Node) string {
	p := printer{start: firstTime(root)}
	heading := "trace " + root.Trace
	if root.Trace == "" {
		heading = "no trace"
	}
	if !p.start.IsZero() {
		heading += ", began " + p.start.UTC().Format("2006-01-02 15:04:05.000") + " UTC"
	}
	p.event(root, "", "")
	return heading + "\n" + p.table()
}

// printer collects lines, because their first column is as wide as its longest cell.
type printer struct {
	start time.Time
	lines []line
}

type line struct{ at, text string }

// firstTime returns the earliest known time of a tree.
func firstTime(n Node) time.Time {
	if !n.Stored.IsZero() {
		return n.Stored
	}
	var first time.Time
	consider := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, d := range n.Deliveries {
		for _, a := range d.Attempts {
			consider(a.Began)
		}
	}
	for _, child := range n.Children {
		consider(firstTime(child))
	}
	return first
}

func (p *printer) table() string {
	width := 0
	for _, l := range p.lines {
		width = max(width, len(l.at))
	}
	var out strings.Builder
	for _, l := range p.lines {
		out.WriteString(strings.TrimRight(fmt.Sprintf("%*s  %s", width, l.at, l.text), " "))
		out.WriteByte('\n')
	}
	return out.String()
}

func (p *printer) add(at time.Time, text string) {
	var since string
	if !at.IsZero() {
		since = "+" + shown(max(at.Sub(p.start), 0)) // clocks differ
		if at.Before(p.start) {
			since = "+" + shown(0)
		}
	}
	p.lines = append(p.lines, line{since, text})
}

// event prints a node; below is the prefix of its deliveries and children.
func (p *printer) event(n Node, here, below string) {
	p.add(n.Stored, here+titleOf(n))
	last := len(n.Deliveries) + len(n.Children)
	if last == 0 && n.Type != "" {
		p.add(time.Time{}, below+"└─ no delivery yet")
	}
	for _, d := range n.Deliveries {
		last--
		branch, rest := branches(last == 0)
		p.delivery(d, below+branch, below+rest)
	}
	p.events(n.Children, below)
}

func (p *printer) events(nodes []Node, below string) {
	for i, n := range nodes {
		branch, rest := branches(i == len(nodes)-1)
		p.event(n, below+branch, below+rest)
	}
}

func branches(last bool) (here, below string) {
	if last {
		return "└─ ", "   "
	}
	return "├─ ", "│  "
}

func titleOf(n Node) string {
	title := n.Type + "  " + n.ID
	if n.Type == "" {
		title = n.ID + "  (nobody remembers more of it)"
	}
	if n.Source != "" {
		title += "  from " + n.Source
	}
	if n.ByTrace {
		title += "  (by its trace)"
	}
	if n.Asked {
		title += "  ◂"
	}
	return title
}

func (p *printer) delivery(d Delivery, here, below string) {
	var began time.Time
	if len(d.Attempts) > 0 {
		began = d.Attempts[0].Began
	}
	p.add(began, here+headOf(d)+": "+p.stateOf(d))
	if len(d.Attempts) > 1 {
		mark := "   "
		if len(d.Children) > 0 {
			mark = "│  "
		}
		for _, a := range d.Attempts {
			p.add(a.Began, below+mark+p.attempt(a))
		}
	}
	p.events(d.Children, below)
}

func headOf(d Delivery) string {
	head := d.Namespace + "/" + d.Subscription
	if d.DeadLetter {
		head = "dead letter of " + head
	}
	if d.Sink != "" && d.Sink != d.Namespace+"/"+d.Subscription {
		head += " → " + d.Sink
	}
	return head
}

// stateOf describes the state of a delivery, with the result of a single attempt.
func (p *printer) stateOf(d Delivery) string {
	var parts []string
	switch d.State {
	case Delivered:
		parts = append(parts, "delivered")
	case Filtered:
		return "left out by the filter"
	case DeadLettered:
		parts = append(parts, "dead letter, "+cmp.Or(d.Message, d.Reason))
	case Redriven:
		parts = append(parts, "redriven, not delivered yet")
	case Retrying:
		parts = append(parts, "waits for the next attempt")
	}
	switch {
	case len(d.Attempts) > 1:
		parts = append(parts, attemptsOf(d))
	case len(d.Attempts) == 1 && d.State != Redriven:
		parts = append(parts, p.outcome(d.Attempts[0], d.State == Retrying)...)
	}
	if d.Waited > 0 {
		parts = append(parts, "waited "+shown(time.Duration(d.Waited)))
	}
	return strings.Join(parts, ", ")
}

// attemptsOf describes the number of attempts, without redrives.
func attemptsOf(d Delivery) string {
	n := 0
	for _, a := range d.Attempts {
		if !a.Redriven {
			n++
		}
	}
	if n == 1 {
		return "1 attempt"
	}
	return strconv.Itoa(n) + " attempts"
}

func (p *printer) attempt(a Attempt) string {
	if a.Redriven {
		return "redriven"
	}
	return strings.Join(append([]string{"attempt " + strconv.Itoa(a.Number)}, p.outcome(a, true)...), ", ")
}

func (p *printer) outcome(a Attempt, why bool) []string {
	var parts []string
	if a.Status != 0 {
		parts = append(parts, strconv.Itoa(a.Status))
	}
	if reason := cmp.Or(a.Message, a.Reason); why && reason != "" {
		parts = append(parts, reason)
	}
	parts = append(parts, "took "+shown(time.Duration(a.Took)))
	if !a.Due.IsZero() {
		parts = append(parts, "next at +"+shown(max(a.Due.Sub(p.start), 0)))
	}
	return parts
}

// shown rounds a duration for people.
func shown(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	default:
		return d.Round(time.Second).String()
	}
}
