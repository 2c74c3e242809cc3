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

// References are some branches and tags of a repository, the commits that they stand for, and what may have been meant by
// those that are not there.
type References struct {
	commits map[string]string // by full name
	hints   map[string]string // by what was asked for
	hint    string            // for what has none of its own
}

// List reads a repository's references, in any form that Resolve takes. However many there are, it keeps these alone.
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

// listing reads what a server says of its references. It notes what is wanted and hands no more on than the first line, which
// has the server's capabilities, and what is none of a list: how long it is costs no memory.
type listing struct {
	from *bufio.Reader
	into *selection
	left int // bytes that may still come

	began bool   // the first reference has passed
	plain bool   // what comes is not looked at
	ready []byte // to be handed on
	err   error  // after that
}

func newListing(from io.Reader, into *selection) *listing {
	return &listing{from: bufio.NewReaderSize(from, maxPacket), into: into, left: maxAdvertised}
}

const (
	lengthSize = 4
	maxPacket  = 65520 // with its length
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

// next takes a packet, and returns it where it has to be handed on.
func (l *listing) next() ([]byte, error) {
	size := l.size()
	if size == 0 {
		l.plain = true // an end, too few bytes or no Git: whoever reads on finds out
		return nil, nil
	}
	if size == lengthSize { // a flush, or a packet without content
		l.plain = l.began
	}
	if l.left -= size; l.left < 0 {
		return nil, errTooLong
	}
	packet, err := l.from.Peek(size)
	if err == nil && l.take(packet[lengthSize:]) {
		packet = nil
	}
	_, _ = l.from.Discard(min(size, l.from.Buffered())) // keeps what was peeked until the next packet
	return packet, err
}

// size is that of the next packet with its length, and 0 where there is none.
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

// take reports whether a line is one of a list that need not be handed on.
func (l *listing) take(line []byte) bool {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if l.began && bytes.HasPrefix(line, []byte("shallow ")) {
		return true
	}
	line, _, _ = bytes.Cut(line, []byte{0}) // what follows are capabilities
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
	// misspelt limits how many letters of a name may be wrong for another one to be meant.
	misspelt = 3
	// maxHints is for how many references names are looked for that are like them.
	maxHints = 8
	maxShown = 100 // bytes of a name
)

// selection is what is kept of a list of references while it is read: the commits of those that are wanted, and a few names for
// messages.
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

// see takes one line of the list. An annotated tag comes again with the commit that it points to, which counts and not the tag's
// own object.
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

// references are what has come of it.
func (s *selection) references() References {
	found := References{commits: s.commits, hints: map[string]string{}, hint: s.branches.list()}
	for _, near := range s.near {
		if len(near.names) > 0 {
			found.hints[near.reference] = near.names.list()
		}
	}
	return found
}

// nearest are the names that look most like a reference.
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

// names are the first ones in order of distance and alphabet, one more than are shown.
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

// list is part of a message.
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

// isPlain reports whether a name may be shown. Others are a server's words.
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

// distance is the number of letters that differ, without regard to case; of names that are far apart only that they are.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > misspelt || -diff > misspelt {
		return misspelt + 1
	}
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}
