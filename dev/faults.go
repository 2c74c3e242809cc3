package dev

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// loadTries is how often a Function may end before it is ready until a run with Once gives it up. Once may be chance.
const loadTries = 2

// ErrFailed is the end of a run with Once in which something went wrong. What it was, was printed.
var ErrFailed = errors.New("the run has failed")

// unloaded lists which Functions do not load, and why. Those that may load yet are left out as long as there is time.
func unloaded(functions []runner.Status, last bool) []string {
	tries := loadTries
	if last {
		tries = 1
	}
	var found []string
	for _, status := range functions {
		if status.Unprepared || status.FailedStarts >= tries {
			why, _, _ := strings.Cut(status.LastError, "\n")
			found = append(found, fmt.Sprintf("%s/%s: %s", status.Namespace, status.Name, why))
		}
	}
	return found
}

// faults are what is wrong with a run that is over, in a few words each. Without any it went well. What a Function that
// does not load leaves undone is no fault of its own.
func (r report) faults(unloaded []string, missing string) []string {
	var faults []string
	add := func(what []string, one, many string) {
		switch len(what) {
		case 0:
		case 1:
			faults = append(faults, fmt.Sprintf("1 %s: %s", one, what[0]))
		default:
			faults = append(faults, fmt.Sprintf("%d %s, the first: %s", len(what), many, what[0]))
		}
	}
	add(unloaded, "Function did not load", "Functions did not load")
	add(each(r.dead, deadLetter), "event became a dead letter", "events became dead letters")
	add(each(r.unwanted, published), "event was wanted by no Subscription", "events were wanted by no Subscription")
	if missing != "" && len(unloaded) == 0 {
		faults = append(faults, missing)
	}
	return faults
}

func each(records []journal.Record, describe func(journal.Record) string) []string {
	texts := make([]string, 0, len(records))
	for _, record := range records {
		texts = append(texts, describe(record))
	}
	return texts
}

func published(r journal.Record) string { return fmt.Sprintf("%s %s from %s", r.Type, r.ID, r.Source) }

func deadLetter(r journal.Record) string {
	text := fmt.Sprintf("%s at %s: %s", published(r), r.Sink, cmp.Or(r.Message, r.Reason))
	if r.Status > 0 {
		text += fmt.Sprintf(", status %d", r.Status)
	}
	return text
}

// conclude writes the line that programs read. It fails when the run has.
func (r report) conclude(out io.Writer, faults []string) error {
	if len(faults) > 0 {
		_, err := fmt.Fprintf(out, "run failed: %s\n", printable(strings.Join(faults, "; ")))
		return errors.Join(ErrFailed, err)
	}
	_, err := fmt.Fprintf(out, "run ok: events=%d lost=%d wake_to_first_byte_p50_ms=%d\n", r.events, r.lost, r.wake.Milliseconds())
	return err
}

// printable leaves out what would act on a terminal: the texts are of events, handlers and packages.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
