package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// permissive licences only require that their text and notices accompany the binaries, which the notices do.
var permissive = []string{
	"0BSD", "Apache-2.0", "BlueOak-1.0.0", "BSD-2-Clause", "BSD-2-Clause-Views", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "Unicode-DFS-2016",
	"Unlicense", "WTFPL", "Zlib",
	// Go's patent grant, which accompanies its licence.
	"GooglePatentClause",
}

// exception allows a module otherwise disallowed licences.
type exception struct {
	licences []string // as they are recognized
	// unrecognized allows files with unknown licence texts, which were reviewed manually.
	unrecognized []string
	packages     []string // the only packages of the exception; empty: the whole module
	reason       string
}

// judge returns the problems with a module's licences.
func judge(one component, allowed map[string]exception) error {
	with, where := allowed[one.path], one.path+"@"+one.version
	problems := with.packagesBeyond(where, one.packages)
	licensed := false
	for _, read := range one.files {
		if !read.notice {
			licensed = true
			problems = append(problems, with.judge(where, read)...)
		}
	}
	if !licensed {
		problems = append(problems, fmt.Errorf("%s has no licence", where))
	}
	return errors.Join(problems...)
}

func (e exception) packagesBeyond(where string, compiled []string) (problems []error) {
	for _, pkg := range compiled {
		if len(e.packages) > 0 && !slices.Contains(e.packages, pkg) {
			problems = append(problems, fmt.Errorf("%s: package %s is in a binary, and the exception is only for %s: %s",
				where, pkg, strings.Join(e.packages, ", "), e.reason))
		}
	}
	return problems
}

func (e exception) judge(where string, read file) (problems []error) {
	if !read.known && !slices.Contains(e.unrecognized, read.name) {
		return []error{fmt.Errorf("%s: %s is not a known licence (%s): read it, and add an exception to tools/supply/licenses",
			where, read.name, strings.Join(read.licences, ", "))}
	}
	for _, id := range read.licences {
		if !slices.Contains(permissive, id) && !slices.Contains(e.licences, id) {
			problems = append(problems, fmt.Errorf("%s: %s is under %s, which is not allowed", where, read.name, id))
		}
	}
	return problems
}

// ids returns the identifiers of a module's licences.
func (c component) ids() []string {
	var all []string
	for _, read := range c.files {
		for _, id := range read.licences {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	slices.Sort(all)
	return all
}
