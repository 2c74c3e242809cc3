package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

// References holds the commits of selected branches and tags of a repository, and hints for those that do not exist.
type References struct {
	commits map[string]string // by full name
	hints   map[string]string // by requested reference
	hint    string            // for references without a hint
}

// List returns a repository's references, in any form that Resolve accepts. It keeps only these, however many there
// are.
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

// namesOf returns the full names under which a reference may be listed, in order of precedence.
func namesOf(reference string) []string {
	if strings.HasPrefix(reference, "refs/") {
		return []string{reference}
	}
	return []string{branches + reference, tags + reference}
}

// Resolve returns the commit of a listed branch, tag, full reference name or commit. A branch takes precedence over a
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

// listing filters a server's list of references. It records the requested references and forwards only the first line,
// which contains the server's capabilities, and lines that are not references, so that its memory does not depend on
// the length of the list.
type listing struct {
	from *bufio.Reader
	into *selection
	left int // remaining bytes

	began bool   // the first reference has passed
	plain bool   // passed through without inspection
	ready []byte // to be forwarded
	err   error  // after ready
}

func newListing(from io.Reader, into *selection) *listing {
	return &listing{from: bufio.NewReaderSize(from, maxPacket), into: into, left: maxAdvertised}
}

const (
	lengthSize = 4
	maxPacket  = 65520 // including its length
)

// Read implements io.Reader.
func (l *listing) Read(p []byte) (int, error) {
	for len(l.ready) == 0 && l.err == nil && !l.plain {
		l.ready, l.err = l.next()
	}
	if len(l.ready) > 0 {
		n := copy(p, l.ready)
		l.ready = l.ready[n:]
		return n, nil
	}
	if l.err != nil {
		return 0, l.err
	}
	if l.left == 0 {
		return 0, errTooLong
	}
	n, err := l.from.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

var errTooLong = &Error{Kind: Unreadable, Message: fmt.Sprintf(
	"the repository lists more than %d MiB of branches and tags, which is more than is read", maxAdvertised>>20)}

// next reads a packet, and returns it if it has to be forwarded.
func (l *listing) next() ([]byte, error) {
	size := l.size()
	if size == 0 {
		l.plain = true // the end, a short read or another protocol: the reader reports it
		return nil, nil
	}
	if size == lengthSize { // a flush packet, or a packet without content
		l.plain = l.began
	}
	if l.left -= size; l.left < 0 {
		return nil, errTooLong
	}
	packet, err := l.from.Peek(size)
	if err == nil && l.take(packet[lengthSize:]) {
		packet = nil
	}
	_, _ = l.from.Discard(min(size, l.from.Buffered())) // valid until the next packet
	return packet, err
}

// size returns the size of the next packet including its length, or 0.
func (l *listing) size() int {
	head, err := l.from.Peek(lengthSize)
	if err != nil {
		return 0
	}
	size, err := strconv.ParseUint(string(head), 16, 16)
	if err != nil || size > maxPacket {
		return 0
	}
	return max(int(size), lengthSize)
}

// take reports whether a line is a reference that need not be forwarded.
func (l *listing) take(line []byte) bool {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if l.began && bytes.HasPrefix(line, []byte("shallow ")) {
		return true
	}
	line, _, _ = bytes.Cut(line, []byte{0}) // capabilities follow
	if len(line) <= hashSize+1 || line[hashSize] != ' ' || !isHash(line[:hashSize]) {
		return false
	}
	l.into.see(line[hashSize+1:], line[:hashSize])
	first := !l.began
	l.began = true
	return !first
}

const hashSize = 40

func isHash(text []byte) bool {
	for _, letter := range text {
		if (letter < '0' || letter > '9') && (letter < 'a' || letter > 'f') {
			return false
		}
	}
	return true
}

const (
	shown = 5
	// misspelt is the maximum number of differing letters in a hint.
	misspelt = 3
	// maxHints limits the number of references for which similar names are searched.
	maxHints = 8
	maxShown = 100 // bytes of a name
)

// selection collects from a list of references the requested commits, and a few names for messages.
type selection struct {
	wanted   map[string]bool   // full names
	commits  map[string]string // by full name
	near     []nearest
	branches names
}

func newSelection(references []string) *selection {
	s := &selection{wanted: map[string]bool{}, commits: map[string]string{}}
	for _, reference := range references {
		reference = strings.TrimSpace(reference)
		if IsCommit(reference) {
			continue
		}
		for _, name := range namesOf(reference) {
			s.wanted[name] = true
		}
		if len(s.near) < maxHints {
			s.near = append(s.near, nearest{reference: reference})
		}
	}
	return s
}

// see processes one line of the list. An annotated tag is listed again with the commit that it points to, which takes
// precedence over the tag object.
func (s *selection) see(full, commit []byte) {
	name := string(full)
	base, _ := strings.CutSuffix(name, "^{}")
	if s.wanted[base] {
		s.commits[base] = string(commit)
	}
	short, isBranch := strings.CutPrefix(name, branches)
	if !isBranch {
		var isTag bool
		if short, isTag = strings.CutPrefix(name, tags); !isTag {
			return
		}
	}
	if !isPlain(short) {
		return
	}
	if isBranch {
		s.branches.add(candidate{name: short})
	}
	for i := range s.near {
		s.near[i].add(short)
	}
}

// references returns the collected References.
func (s *selection) references() References {
	found := References{commits: s.commits, hints: map[string]string{}, hint: s.branches.list()}
	for _, near := range s.near {
		if len(near.names) > 0 {
			found.hints[near.reference] = near.names.list()
		}
	}
	return found
}

// nearest collects the names most similar to a reference.
type nearest struct {
	reference string
	names     names
}

func (n *nearest) add(name string) {
	if d := distance(n.reference, name); d <= min(misspelt, len(n.reference)/2) {
		n.names.add(candidate{name, d})
	}
}

type candidate struct {
	name     string
	distance int
}

// names are the first names in order of distance and alphabet, one more than is shown.
type names []candidate

func (n *names) add(c candidate) {
	at, found := slices.BinarySearchFunc(*n, c, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	if found || at > shown {
		return
	}
	*n = slices.Insert(*n, at, c)
	*n = (*n)[:min(len(*n), shown+1)]
}

// list returns the names as part of a message.
func (n names) list() string {
	if len(n) == 0 {
		return ""
	}
	text := ", but "
	for i, c := range n {
		switch {
		case i == shown:
			return text + ", ..."
		case i > 0:
			text += ", "
		}
		text += c.name
	}
	return text
}

// isPlain reports whether a name is harmless in a message. Other names may be arbitrary text of a server.
func isPlain(name string) bool {
	if name == "" || len(name) > maxShown || strings.IndexByte("._/+@#-", name[0]) >= 0 {
		return false
	}
	for i := range len(name) {
		letter := name[i]
		switch {
		case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9':
		case strings.IndexByte("._/+@#-", letter) < 0:
			return false
		}
	}
	return true
}

// distance returns the number of differing letters, ignoring case. Beyond misspelt it is not exact.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > misspelt || -diff > misspelt {
		return misspelt + 1
	}
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}
