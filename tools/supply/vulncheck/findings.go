package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// outcome is what is known in the end.
type outcome struct {
	unchecked string // why nothing is known
	modified  time.Time
	found     map[string]vulnerability // by ID
}

type vulnerability struct {
	summary   string
	module    string
	fixed     string // empty: in no version yet
	reachable string // the vulnerable function and the first of ours that leads to it; empty: none does
}

// message is one of govulncheck's stream, as far as it matters.
type message struct {
	Config *struct {
		Modified *time.Time `json:"db_last_modified"`
	} `json:"config"`
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *finding `json:"finding"`
}

type finding struct {
	OSV   string  `json:"osv"`
	Fixed string  `json:"fixed_version"`
	Trace []frame `json:"trace"` // from the vulnerable function to the one of ours
}

type frame struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Package  string `json:"package"`
	Function string `json:"function"`
	Receiver string `json:"receiver"`
}

func (f frame) String() string {
	if f.Receiver != "" {
		return f.Package + "." + strings.TrimPrefix(f.Receiver, "*") + "." + f.Function
	}
	return f.Package + "." + f.Function
}

// read makes an outcome of govulncheck's stream. A stream without its first message is none.
func read(stream io.Reader) (outcome, error) {
	result, summaries := outcome{found: map[string]vulnerability{}}, map[string]string{}
	for decoder := json.NewDecoder(stream); ; {
		var m message
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return outcome{}, fmt.Errorf("read govulncheck's answer: %w", err)
		}
		switch {
		case m.Config != nil && m.Config.Modified != nil:
			result.modified = *m.Config.Modified
		case m.OSV != nil:
			summaries[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil:
			result.found[m.Finding.OSV] = m.Finding.added(result.found[m.Finding.OSV])
		}
	}
	if result.modified.IsZero() {
		return outcome{}, errors.New("govulncheck does not say which database it has asked")
	}
	for id, one := range result.found {
		one.summary = summaries[id]
		result.found[id] = one
	}
	return result, nil
}

// added is the vulnerability with what one more finding says of it: it is found as a module first, and as a function at last.
func (f finding) added(v vulnerability) vulnerability {
	if len(f.Trace) == 0 {
		return v
	}
	vulnerable, ours := f.Trace[0], f.Trace[len(f.Trace)-1]
	v.module, v.fixed = vulnerable.Module+"@"+vulnerable.Version, f.Fixed
	if vulnerable.Function != "" && v.reachable == "" {
		v.reachable = vulnerable.String()
		if len(f.Trace) > 1 {
			v.reachable += ", from " + ours.String()
		}
	}
	return v
}

// judge is what people read, and whether it may pass.
func (o outcome) judge(required bool) (text string, ok bool) {
	if o.unchecked != "" {
		text = "vulnerabilities: not checked: " + o.unchecked + "\n"
		if required {
			text += "vulnerabilities: VULNDB_REQUIRED=1 asks for an answer\n"
		}
		return text, !required
	}
	reachable := 0
	var lines strings.Builder
	for _, id := range slices.Sorted(maps.Keys(o.found)) {
		one := o.found[id]
		if one.reachable == "" {
			continue
		}
		reachable++
		remedy := "it is fixed in " + one.fixed
		if one.fixed == "" {
			remedy = "no version fixes it yet"
		}
		fmt.Fprintf(&lines, "%s in %s: %s\n  reachable: %s\n  %s, https://pkg.go.dev/vuln/%s\n", id, one.module, one.summary, one.reachable, remedy, id)
	}
	fmt.Fprintf(&lines, "vulnerabilities: reachable=%d required_and_not_reachable=%d database=%s\n",
		reachable, len(o.found)-reachable, o.modified.Format(time.RFC3339))
	return lines.String(), reachable == 0
}
