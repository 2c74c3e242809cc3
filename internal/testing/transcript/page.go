package transcript

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is what a step does.
type Kind int

// The kinds of steps.
const (
	// Run runs commands and waits for them.
	Run Kind = iota
	// Start runs commands in the background.
	Start
	// Follow waits for output of the newest background command.
	Follow
	// Interrupt does to the newest background command what Ctrl-C does, and waits for its end.
	Interrupt
)

// Step is one block of a page.
type Step struct {
	Kind Kind
	// Line is where the block begins, from 1.
	Line int
	// Script are the commands; empty for Follow and Interrupt.
	Script string
	// Await repeats the commands until they print what is wanted. Fails wants an error of them.
	Await, Fails bool
	// Tags are the words that mean nothing here.
	Tags []string
	// Want are lines of the output.
	Want []string
}

// Tagged reports whether the step has the tag.
func (s Step) Tagged(tag string) bool { return slices.Contains(s.Tags, tag) }

const (
	wordBackground  = "background"
	interruptMarker = "<!-- interrupt -->"
)

// Parse reads the steps of a page. tags are the words that it may have beside those of this package.
func Parse(page string, tags ...string) ([]Step, error) {
	var steps []Step
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == interruptMarker {
			steps = append(steps, Step{Kind: Interrupt, Line: i + 1})
			continue
		}
		fence, info, ok := opening(lines[i])
		if !ok {
			continue
		}
		begin := i
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != fence; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block does not end", begin+1)
		}
		var err error
		if steps, err = add(steps, begin+1, info, lines[begin+1:i], tags); err != nil {
			return nil, fmt.Errorf("line %d: %w", begin+1, err)
		}
	}
	return steps, nil
}

// opening reports whether a line opens a block: its fence, and what is behind that.
func opening(line string) (fence string, info []string, ok bool) {
	text := strings.TrimSpace(line)
	rest := strings.TrimLeft(text, "`")
	fence = text[:len(text)-len(rest)]
	return fence, strings.Fields(rest), len(fence) >= 3
}

// add adds a block to the steps. Blocks of other languages are for readers alone.
func add(steps []Step, line int, info, body, tags []string) ([]Step, error) {
	if len(info) == 0 {
		return steps, nil
	}
	switch info[0] {
	case "sh":
		step, err := commands(line, info[1:], body, tags)
		return append(steps, step), err
	case "output":
		return output(steps, line, info[1:], body)
	default:
		return steps, nil
	}
}

func commands(line int, words, body, tags []string) (Step, error) {
	step := Step{Kind: Run, Line: line, Script: strings.Join(body, "\n") + "\n"}
	for _, word := range words {
		switch {
		case word == wordBackground:
			step.Kind = Start
		case word == "await":
			step.Await = true
		case word == "fails":
			step.Fails = true
		case slices.Contains(tags, word):
			step.Tags = append(step.Tags, word)
		default:
			return Step{}, fmt.Errorf("%q is no word for a block of commands", word)
		}
	}
	if step.Kind == Start && (step.Await || step.Fails) {
		return Step{}, fmt.Errorf("a command in the %s is neither awaited nor failed", wordBackground)
	}
	return step, nil
}

func output(steps []Step, line int, words, body []string) ([]Step, error) {
	var want []string
	for _, text := range body {
		if text = strings.TrimSpace(text); text != "" {
			want = append(want, text)
		}
	}
	switch {
	case slices.Equal(words, []string{wordBackground}):
		if !slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == Start }) {
			return nil, fmt.Errorf("nothing runs in the %s that could print this", wordBackground)
		}
		return append(steps, Step{Kind: Follow, Line: line, Want: want}), nil
	case len(words) > 0:
		return nil, fmt.Errorf("%q is no word for output", words[0])
	case len(steps) == 0 || steps[len(steps)-1].Script == "" || steps[len(steps)-1].Want != nil:
		return nil, errors.New("no commands stand before this output")
	}
	steps[len(steps)-1].Want = want
	return steps, nil
}
