package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/rouse-run/rouse/internal/broker"
)

const maxNamed = 10 // lost events of a Subscription that are named

// account counts where the events of a Subscription are. Each is counted once: one that was delivered and dead-lettered too,
// because its bridge was killed in between, as delivered. Deleted are those that are nowhere and that were in a stream or
// a consumer when the run deleted it.
type account struct{ published, acked, deadLettered, pending, lost, deleted, duplicates int }

func (a *account) add(b account) {
	a.published, a.acked, a.deadLettered = a.published+b.published, a.acked+b.acked, a.deadLettered+b.deadLettered
	a.pending, a.lost, a.deleted, a.duplicates = a.pending+b.pending, a.lost+b.lost, a.deleted+b.deleted, a.duplicates+b.duplicates
}

// report prints where the events of each Subscription are, and returns the sum.
func (s *stage) report(ctx context.Context) (account, error) {
	left, err := s.held(ctx)
	if err != nil {
		return account{}, err
	}
	fmt.Printf("\n%-12s %9s %9s %12s %9s %9s %9s %10s\n",
		"Subscription", "published", "acked", "deadlettered", "pending", "lost", "deleted", "duplicates")
	var all account
	overtaken := 0
	for i, b := range scenario() {
		if err := s.journals[i].read(); err != nil {
			return account{}, err
		}
		own := s.account(i, left)
		waiting, err := s.backlogOf(ctx, i)
		if err != nil {
			return account{}, err
		}
		own.pending = max(own.pending, int(waiting.total()))
		fmt.Printf("%-12s %9d %9d %12d %9d %9d %9d %10d\n",
			b.name, own.published, own.acked, own.deadLettered, own.pending, own.lost, own.deleted, own.duplicates)
		all.add(own)
		overtaken += s.journals[i].order.overtaken
	}
	fmt.Printf("order: %d events were taken after a later one of their key\n", overtaken)
	if overtaken > 0 {
		return all, errors.New("events overtook others of their key")
	}
	return all, nil
}

// account follows each published event of a Subscription by its id.
func (s *stage) account(subscription int, left held) account {
	var a account
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
		case left[broker.DeadLetterStream][id]:
			a.deadLettered++
		case left[broker.DefaultStream][id], left[broker.RetryStream][id]:
			a.pending++
		case s.deletedIDs[id]:
			a.deleted++
		default:
			if a.lost++; a.lost <= maxNamed {
				fmt.Printf("lost: event %s of %s\n", id, s.fixture.Routes[subscription].Subscription)
			}
		}
	}
	return a
}
