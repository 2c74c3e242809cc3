package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// calls are how often the controller did what, such as "patch functions/status".
type calls map[string]int

// audit counts what the API server has logged.
type audit struct {
	path    string
	offset  int64
	counted calls
}

// entry is what matters of a line of the log.
type entry struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// calls counts all since the beginning.
func (c *cluster) calls() (calls, error) {
	file, err := os.Open(c.audit.path)
	if errors.Is(err, os.ErrNotExist) {
		return calls{}, nil // nothing was asked yet
	}
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(c.audit.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1 // the last line may be half written
	c.audit.offset += int64(whole)
	if err := c.audit.counted.add(text[:whole]); err != nil {
		return nil, err
	}
	return maps.Clone(c.audit.counted), nil
}

// add counts lines of the log.
func (c calls) add(lines []byte) error {
	for line := range bytes.Lines(lines) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		what := e.Verb + " " + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		if e.ObjectRef.Resource == "" {
			path, _, _ := strings.Cut(e.RequestURI, "?")
			what += path
		}
		c[what]++
	}
	return nil
}

func (c calls) since(before calls) calls {
	difference := calls{}
	for what, count := range c {
		if count > before[what] {
			difference[what] = count - before[what]
		}
	}
	return difference
}

func (c calls) total() (sum int) {
	for _, count := range c {
		sum += count
	}
	return sum
}

// writes are those that change objects; a lease and Events say nothing of them.
func (c calls) writes() (sum int) {
	for what, count := range c {
		verb, resource, _ := strings.Cut(what, " ")
		if slices.Contains([]string{"create", "update", "patch", "delete"}, verb) && resource != "leases" && resource != "events" {
			sum += count
		}
	}
	return sum
}

func (c calls) String() string {
	return c.list(strconv.Itoa)
}

// per is String for each of n.
func (c calls) per(n int) string {
	return fmt.Sprintf("%.1f: ", float64(c.total())/float64(n)) +
		c.list(func(count int) string { return fmt.Sprintf("%.2f", float64(count)/float64(n)) })
}

// list begins with what was most.
func (c calls) list(show func(int) string) string {
	if len(c) == 0 {
		return "none"
	}
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(c[b]-c[a], cmp.Compare(a, b)) })
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = show(c[name]) + " " + name
	}
	return strings.Join(parts, ", ")
}
