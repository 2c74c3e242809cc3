package main

import (
	"regexp"
	"strings"
)

const (
	maxReasons      = 10  // of a tier
	maxReasonLength = 600 // bytes of one
)

// assertion matches a line of a failed assertion's block: a field and its value, or one more line of the value.
var assertion = regexp.MustCompile(`^\s+\t(Error Trace|Error|Test|Messages|\s+):?\s*\t(.*)$`)

// reasonsOf returns what the failed assertions of a tier say, each on one line behind its test: in a log, a dump follows
// that is longer than a person scrolls.
func reasonsOf(output string) []string {
	var reasons []string
	block, field := map[string]string{}, ""
	for line := range strings.SplitSeq(output+"\n", "\n") {
		groups := assertion.FindStringSubmatch(line)
		if groups == nil {
			if block["Test"] != "" {
				reason := strings.TrimSpace(block["Test"] + ":" + block["Error"] + block["Messages"])
				reasons = append(reasons, reason[:min(len(reason), maxReasonLength)])
			}
			clear(block)
			continue
		}
		name, value := strings.TrimSpace(groups[1]), strings.TrimSpace(groups[2])
		if name != "" {
			field = name
		}
		if field == "Test" {
			block[field] = value
		} else {
			block[field] += " " + value
		}
	}
	return reasons[:min(len(reasons), maxReasons)]
}
