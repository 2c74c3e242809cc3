package git

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// References are some branches and tags of a repository, the commits that they stand for, and what may have been meant by
// those that are not there.
type References struct {
	commits map[string]string // by full name
	hints   map[string]string // by what was asked for
	hint    string            // for what has none of its own
}

// List asks a repository for references, in any form that Resolve takes. However many there are, it keeps these alone.
func (c *Client) List(ctx context.Context, repository Repository, references ...string) (References, error) {
	opened, err := c.open(ctx, repository, references...)
	if err != nil {
		return References{}, err
	}
	defer func() { _ = opened.Close() }()
	return opened.wanted.references(), nil
}

var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// IsCommit reports whether a reference is a commit itself, so that no request is needed.
func IsCommit(reference string) bool { return commitHash.MatchString(reference) }

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// namesOf are the full names by which a reference may be listed, the first of which counts.
func namesOf(reference string) []string {
	if strings.HasPrefix(reference, "refs/") {
		return []string{reference}
	}
	return []string{branches + reference, tags + reference}
}

// Resolve finds the commit of a branch, a tag, a full reference name or a commit, which was asked for. A branch comes before a
// tag of the same name.
func (r References) Resolve(reference string) (string, error) {
	reference = strings.TrimSpace(reference)
	if IsCommit(reference) {
		return reference, nil
	}
	for _, name := range namesOf(reference) {
		if commit := r.commits[name]; commit != "" {
			return commit, nil
		}
	}
	hint, ok := r.hints[reference]
	if !ok {
		hint = r.hint
	}
	return "", &Error{Kind: ReferenceNotFound, Message: fmt.Sprintf(
		"reference not found: there is no branch or tag %q%s. Correct spec.source.gitRepository.reference", reference, hint)}
}
