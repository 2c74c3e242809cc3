package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/rouse-run/rouse/cli/output"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Failure Level = "failure"
)

// Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"` // its name, the same in every release
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Report holds the findings of an examination.
type Report struct {
	Subject  string    `json:"subject"` // what was examined
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
}

// reportOf counts findings.
func reportOf(subject string, findings []Finding) Report {
	r := Report{Subject: subject, Findings: findings}
	for _, finding := range findings {
		switch finding.Level {
		case OK:
			r.OK++
		case Warning:
			r.Warnings++
		case Failure:
			r.Failures++
		}
	}
	return r
}

// Print prints a line for each finding, with its remedy below.
func (r Report) Print(w io.Writer, style output.Style) error {
	table := output.NewTable("STATE", "CHECK", "MESSAGE")
	paint := map[Level]func(string) output.Styled{OK: style.Good, Warning: style.Busy, Failure: style.Bad}
	for _, finding := range r.Findings {
		table.Row(paint[finding.Level](string(finding.Level)), style.Name(finding.Check), finding.Message)
		if finding.Remedy != "" {
			table.Row("", "", "  do: "+finding.Remedy)
		}
	}
	if err := table.Flush(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s: %d ok, %s, %s\n", output.Clean(r.Subject), r.OK,
		counted(r.Warnings, "warning", "warnings"), counted(r.Failures, "failure", "failures"))
	return err
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// examination collects findings.
type examination struct{ findings []Finding }

func (e *examination) add(check string, level Level, remedy, format string, args ...any) {
	e.findings = append(e.findings, Finding{Check: check, Level: level, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (e *examination) ok(check, format string, args ...any) { e.add(check, OK, "", format, args...) }

func (e *examination) warn(check, remedy, format string, args ...any) {
	e.add(check, Warning, remedy, format, args...)
}

func (e *examination) fail(check, remedy, format string, args ...any) {
	e.add(check, Failure, remedy, format, args...)
}

// maxNamed bounds how many things of a kind are named one by one.
const maxNamed = 5

// listed names the first of several things.
func listed(names []string) string {
	if over := len(names) - maxNamed; over > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", over)
	}
	return strings.Join(names, ", ")
}
