package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxSubjectPages bounds one DropUnwanted; the server lists 100,000 subjects on each.
	maxSubjectPages = 20
	// purgeBatch is the number of subjects that are purged before the consumers are listed again. None is made or changed meanwhile.
	purgeBatch = 256
)

// errListChanged means that a list of consumers may leave one out that there is.
var errListChanged = errors.New("the list of consumers is incomplete or changed meanwhile")

// DropUnwanted removes from a stream with interest retention what no consumer of it wants any more, and returns how many
// messages that were. The server does so itself whenever a consumer goes or loses subjects, unless more than 100,000
// messages are behind the first that the consumer had not settled: those stay for ever while a consumer wants an
// older message. Nothing goes that a consumer of any client wants, nor what is stored after the call began. Consumers
// that another process makes meanwhile lose only messages that no consumer had interest in before.
func (c *Conn) DropUnwanted(ctx context.Context, stream string) (uint64, error) {
	if !c.Connected() {
		return 0, fmt.Errorf("drop messages without interest: %w", ErrNotConnected)
	}
	var dropped uint64
	for offset, pages := 0, 0; pages < maxSubjectPages; pages++ {
		page, err := c.subjectPage(ctx, stream, offset)
		if err == nil && len(page.State.Subjects) == 0 {
			return dropped, nil
		}
		listed, gone := len(page.State.Subjects), 0
		if err == nil {
			gone, err = c.dropOf(ctx, stream, page, &dropped)
		}
		if err != nil {
			return dropped, fmt.Errorf("drop messages without interest: %w", mapError(err))
		}
		if offset += listed - gone; offset >= page.Total-gone {
			return dropped, nil
		}
	}
	return dropped, nil
}

// subjectPage is a part of what a stream holds.
type subjectPage struct {
	Config jetstream.StreamConfig `json:"config"`
	State  jetstream.StreamState  `json:"state"`
	Total  int                    `json:"total"`
}

func (c *Conn) subjectPage(ctx context.Context, stream string, offset int) (subjectPage, error) {
	var page subjectPage
	body := `{"subjects_filter":">","offset":` + strconv.Itoa(offset) + `}`
	if err := c.callAPI(ctx, "$JS.API.STREAM.INFO."+stream, []byte(body), &page); err != nil {
		return page, err
	}
	if page.Config.Retention != jetstream.InterestPolicy {
		return subjectPage{}, nil // it keeps messages without interest
	}
	return page, nil
}

// dropOf removes what is unwanted of a page and returns how many subjects are gone by that. Consumers are listed after the
// page was read, and nothing is purged that came later: one that is made after the list has nothing of it to lose.
func (c *Conn) dropOf(ctx context.Context, stream string, page subjectPage, dropped *uint64) (gone int, err error) {
	has := holding{first: page.State.FirstSeq, last: page.State.LastSeq, subjects: maps.Clone(page.State.Subjects)}
	partly := purgesPartly(page.Config)
	for {
		batch, err := c.dropBatch(ctx, stream, has, page.State.Consumers, partly, dropped)
		if err != nil || len(batch) == 0 {
			return gone, err
		}
		for _, p := range batch {
			delete(has.subjects, p.subject)
			if p.through == has.last {
				gone++
			}
		}
	}
}

func (c *Conn) dropBatch(
	ctx context.Context, stream string, has holding, counted int, partly bool, dropped *uint64,
) ([]purge, error) {
	defer c.consumers.none()()
	consumers, err := c.interests(ctx, stream)
	if err == nil && counted > len(consumers) {
		err = errListChanged // there is one that is not listed, such as that of a mirror
	}
	if err != nil {
		return nil, err
	}
	batch := unwanted(has, consumers, partly)
	batch = batch[:min(len(batch), purgeBatch)]
	for _, p := range batch {
		body, err := json.Marshal(map[string]any{"filter": p.subject, "seq": p.through + 1})
		if err != nil {
			return nil, err
		}
		var answer struct {
			Purged uint64 `json:"purged"`
		}
		if err := c.callAPI(ctx, "$JS.API.STREAM.PURGE."+stream, body, &answer); err != nil {
			return nil, err
		}
		*dropped += answer.Purged
	}
	return batch, nil
}

// purgesPartly reports whether the server purges a subject that a consumer has among others without skipping messages of the
// others. Older ones than this do not.
func purgesPartly(config jetstream.StreamConfig) bool {
	return atLeast(config.Metadata[serverMetadata+"ver"], [3]int{2, 15, 2})
}

func atLeast(version string, wanted [3]int) bool {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(wanted) {
		return false
	}
	var numbers [3]int
	for i, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		numbers[i] = number
	}
	return slices.Compare(numbers[:], wanted[:]) >= 0
}

// interests are those of all consumers of a stream, or there is an error: one that is left out would lose its messages.
func (c *Conn) interests(ctx context.Context, stream string) ([]interest, error) {
	first, pages, err := c.allConsumers(ctx, stream)
	if err != nil {
		return nil, err
	}
	if pages > 1 { // one that goes while pages are read moves another from one page to that before
		second, _, err := c.allConsumers(ctx, stream)
		if err != nil {
			return nil, err
		}
		if !maps.EqualFunc(first, second, func(a, b *jetstream.ConsumerInfo) bool { return a.Created.Equal(b.Created) }) {
			return nil, errListChanged
		}
	}
	found := make([]interest, 0, len(first))
	for _, info := range first {
		found = append(found, interestOf(info))
	}
	return found, nil
}

func interestOf(info *jetstream.ConsumerInfo) interest {
	wants := interest{
		filters: subjects(info.Config), settled: info.AckFloor.Stream, held: info.NumPending + uint64(info.NumAckPending),
	}
	if info.Config.MaxDeliver > 0 {
		wants.settled = 0 // what it gave up is kept for inspection
	}
	return wants
}

// allConsumers lists consumers of each kind, whose leaders all have answered.
func (c *Conn) allConsumers(ctx context.Context, stream string) (map[string]*jetstream.ConsumerInfo, int, error) {
	found := map[string]*jetstream.ConsumerInfo{}
	for pages := 0; ; pages++ {
		var page struct {
			Total     int                       `json:"total"`
			Consumers []*jetstream.ConsumerInfo `json:"consumers"`
			Missing   []string                  `json:"missing"`
		}
		body := `{"offset":` + strconv.Itoa(len(found)) + `}`
		if err := c.callAPI(ctx, "$JS.API.CONSUMER.LIST."+stream, []byte(body), &page); err != nil {
			return nil, 0, err
		}
		before := len(found)
		for _, info := range page.Consumers {
			found[info.Name] = info
		}
		switch {
		case len(page.Missing) > 0:
			return nil, 0, fmt.Errorf("%w: %d did not respond", errListChanged, len(page.Missing))
		case len(found) == page.Total || before == 0 && page.Total == 0 && len(page.Consumers) == 0:
			return found, pages + 1, nil
		case len(found) == before || len(found) > page.Total:
			return nil, 0, errListChanged
		}
	}
}

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
