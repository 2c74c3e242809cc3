package broker

import "strings"

// interest is what one consumer of a stream wants of it.
type interest struct {
	filters []string // none: everything
	settled uint64   // up to here it wants nothing
	held    uint64   // messages that it wants
}

// holding is what a stream holds: its first and last message, and how many there are of each subject.
type holding struct {
	first, last uint64
	subjects    map[string]uint64
}

// purge is all of a subject up to a message.
type purge struct {
	subject string
	through uint64
}

// unwanted finds what no consumer wants. A message is wanted by the consumers that have its subject and have not settled
// it, so a subject that none of them has is purged up to what the stream held when they were listed, and one that all of them
// have passed as far as all have settled. The latter is asked for with partly alone, and only where each of them sees
// more in the stream than it wants: else there is nothing to find.
func unwanted(has holding, consumers []interest, partly bool) []purge {
	filters := filtersOf(consumers)
	stored := make([]uint64, len(consumers)) // of what each consumer has
	for subject, count := range has.subjects {
		filters.match(subject, func(consumer int) { stored[consumer] += count })
	}
	var found []purge
	for subject := range has.subjects {
		through, wanted, suspect := has.last, false, true
		filters.match(subject, func(consumer int) {
			wanted = true
			through = min(through, consumers[consumer].settled)
			suspect = suspect && stored[consumer] > consumers[consumer].held
		})
		if !wanted || partly && suspect && through >= has.first {
			found = append(found, purge{subject: subject, through: through})
		}
	}
	return found
}

// filterTree holds the filters of consumers by their tokens.
type filterTree struct {
	next map[string]*filterTree
	ends []int // consumers that have a filter that ends here
	tail []int // consumers that have a filter that goes on with >
}

func filtersOf(consumers []interest) *filterTree {
	root := &filterTree{}
	for i, consumer := range consumers {
		if len(consumer.filters) == 0 {
			root.tail = append(root.tail, i)
		}
		for _, filter := range consumer.filters {
			root.add(filter, i)
		}
	}
	return root
}

func (t *filterTree) add(filter string, consumer int) {
	if filter == ">" {
		t.tail = append(t.tail, consumer)
		return
	}
	token, rest, more := strings.Cut(filter, ".")
	if t.next == nil {
		t.next = map[string]*filterTree{}
	}
	child := t.next[token]
	if child == nil {
		child = &filterTree{}
		t.next[token] = child
	}
	if more {
		child.add(rest, consumer)
	} else {
		child.ends = append(child.ends, consumer)
	}
}

// match calls found with each consumer that has the subject.
func (t *filterTree) match(subject string, found func(consumer int)) {
	for _, consumer := range t.tail {
		found(consumer)
	}
	token, rest, more := strings.Cut(subject, ".")
	for _, key := range [...]string{token, "*"} {
		child := t.next[key]
		switch {
		case child == nil:
		case more:
			child.match(rest, found)
		default:
			for _, consumer := range child.ends {
				found(consumer)
			}
		}
	}
}
