package git

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// References are the branches and tags of a repository and the commits that they stand for.
type References struct {
	commits map[string]string // by full name
}

// List asks a repository for its references.
func (c *Client) List(ctx context.Context, repository Repository) (References, error) {
	opened, err := c.open(ctx, repository)
	if err != nil {
		return References{}, err
	}
	defer func() { _ = opened.Close() }()
	return referencesOf(opened), nil
}

// referencesOf takes the commit that an annotated tag points to, not the tag's own object.
func referencesOf(s *session) References {
	found := References{commits: make(map[string]string, len(s.advertised.References))}
	for name, hash := range s.advertised.References {
		found.commits[name] = hash.String()
	}
	for name, hash := range s.advertised.Peeled {
		found.commits[name] = hash.String()
	}
	return found
}

var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// IsCommit reports whether a reference is a commit itself, so that no request is needed.
func IsCommit(reference string) bool { return commitHash.MatchString(reference) }

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

// Resolve finds the commit of a branch, a tag, a full reference name or a commit. A branch comes before a
// tag of the same name.
func (r References) Resolve(reference string) (string, error) {
	reference = strings.TrimSpace(reference)
	if IsCommit(reference) {
		return reference, nil
	}
	candidates := []string{branches + reference, tags + reference}
	if strings.HasPrefix(reference, "refs/") {
		candidates = []string{reference}
	}
	for _, name := range candidates {
		if commit := r.commits[name]; commit != "" {
			return commit, nil
		}
	}
	return "", &Error{Kind: ReferenceNotFound, Message: fmt.Sprintf(
		"reference not found: there is no branch or tag %q%s. Correct spec.source.gitRepository.reference", reference, r.hint(reference))}
}
