package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
)

const (
	letterPage = 1000
	maxNamed   = 10      // lost events of a Subscription that are named
	maxLeft    = 200_000 // messages that are looked at, which is more than there are events
)

// account says where the events of a Subscription are. Each is counted once: one that was delivered and dead-lettered too,
// because its bridge was killed in between, as delivered.
type account struct{ published, acked, deadLettered, pending, lost, duplicates int }

func (a *account) add(b account) {
	a.published, a.acked, a.deadLettered = a.published+b.published, a.acked+b.acked, a.deadLettered+b.deadLettered
	a.pending, a.lost, a.duplicates = a.pending+b.pending, a.lost+b.lost, a.duplicates+b.duplicates
}

// report prints where the events of each Subscription are, and returns the sum.
func (s *stage) report(ctx context.Context) (account, error) {
	letters, err := s.letters(ctx)
	if err != nil {
		return account{}, err
	}
	left, err := s.left(ctx)
	if err != nil {
		return account{}, err
	}
	fmt.Printf("\n%-12s %9s %9s %12s %9s %9s %10s\n", "Subscription", "published", "acked", "deadlettered", "pending", "lost", "duplicates")
	var all account
	overtaken := 0
	for i, b := range scenario() {
		if err := s.journals[i].read(); err != nil {
			return account{}, err
		}
		own := s.account(i, letters, left)
		waiting, err := s.backlogOf(ctx, i)
		if err != nil {
			return account{}, err
		}
		own.pending = max(own.pending, int(waiting.total()))
		fmt.Printf("%-12s %9d %9d %12d %9d %9d %10d\n", b.name, own.published, own.acked, own.deadLettered, own.pending, own.lost, own.duplicates)
		all.add(own)
		overtaken += s.journals[i].order.overtaken
	}
	fmt.Printf("order: %d events were taken before the one before them\n", overtaken)
	if overtaken > 0 {
		return all, errors.New("events overtook others of their key")
	}
	return all, nil
}

// account follows each published event of a Subscription by its id.
func (s *stage) account(subscription int, letters map[types.NamespacedName]map[string]bool, left map[string]bool) account {
	var a account
	name := s.world.Routes[subscription].Subscription
	for number := subscription; number < len(s.events); number += len(s.journals) {
		if !s.events[number].published {
			continue
		}
		a.published++
		id, times := strconv.Itoa(number), s.journals[subscription].times[number]
		switch {
		case times > 0:
			a.acked++
			a.duplicates += times - 1
		case letters[name][id]:
			a.deadLettered++
		case left[id]:
			a.pending++
		default:
			if a.lost++; a.lost <= maxNamed {
				fmt.Printf("lost: event %s of %s\n", id, name)
			}
		}
	}
	return a
}

// letters are the ids of all dead letters.
func (s *stage) letters(ctx context.Context) (map[types.NamespacedName]map[string]bool, error) {
	letters := map[types.NamespacedName]map[string]bool{}
	for query := (broker.LetterQuery{Limit: letterPage}); ; {
		page, err := s.conn.ListDeadLetters(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, letter := range page.Letters {
			if letters[letter.Subscription] == nil {
				letters[letter.Subscription] = map[string]bool{}
			}
			letters[letter.Subscription][letter.ID] = true
		}
		if page.Next == 0 {
			return letters, nil
		}
		query.After = page.Next
	}
}

// left are the ids of all events that the streams still hold for somebody.
func (s *stage) left(ctx context.Context) (map[string]bool, error) {
	conn, err := nats.Connect(s.world.NATS)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	left := map[string]bool{}
	for _, name := range []string{broker.DefaultStream, broker.RetryStream} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("find stream %s: %w", name, err)
		}
		sequence := stream.CachedInfo().State.FirstSeq
		for range maxLeft {
			message, err := stream.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(">"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read stream %s: %w", name, err)
			}
			left[message.Header.Get("ce-id")] = true
			sequence = message.Sequence + 1
		}
	}
	return left, nil
}
