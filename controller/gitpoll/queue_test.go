package gitpoll

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheGitQueueMatchesAFullScan adds, checks and moves repositories of several namespaces at random.
func TestTheGitQueueMatchesAFullScan(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	q, start := queue{lines: map[string]*line{}}, time.Unix(1000, 0)
	repositories := make([]*tracked, 12)
	for i := range repositories {
		repositories[i] = &tracked{spots: map[string]*spot{}}
	}
	waiting := map[string]bool{}
	for range 20_000 {
		repository, namespace := repositories[random.IntN(len(repositories))], fmt.Sprint("n", random.IntN(4))
		now := start.Add(time.Duration(random.IntN(100)) * time.Second)
		switch random.IntN(6) {
		case 0:
			q.add(namespace, repository)
		case 1:
			if repository.spots[namespace] != nil {
				q.remove(namespace, repository)
			}
		case 2:
			repository.due = start.Add(time.Duration(random.IntN(100)) * time.Second)
			q.move(repository)
		case 3:
			repository.busy = !repository.busy
			q.move(repository)
		case 4:
			for _, each := range q.ready(now) {
				require.False(t, waiting[each], "a namespace waits once")
				require.NotNil(t, q.first(each, now))
				waiting[each] = true
			}
		case 5:
			if waiting[namespace] {
				q.served(namespace)
				delete(waiting, namespace)
			}
		}
		requireFirst(t, &q, repositories, now)
	}
	for _, repository := range repositories {
		for namespace := range repository.spots {
			for repository.spots[namespace] != nil {
				q.remove(namespace, repository)
			}
		}
	}
	for namespace := range waiting {
		q.served(namespace)
	}
	require.Empty(t, q.lines, "namespaces without Functions must be forgotten")
	require.Empty(t, q.heads)
}

func requireFirst(t *testing.T, q *queue, repositories []*tracked, now time.Time) {
	t.Helper()
	var head *time.Time // of the namespaces that do not wait
	for namespace, in := range q.lines {
		var due *time.Time
		for _, each := range repositories {
			if each.spots[namespace] != nil && !each.busy && (due == nil || each.due.Before(*due)) {
				due = &each.due
			}
		}
		first := q.first(namespace, now)
		require.Equal(t, due != nil && !due.After(now), first != nil)
		if first != nil {
			require.Equal(t, *due, first.due)
		}
		if due != nil && !in.waits && (head == nil || due.Before(*head)) {
			head = due
		}
	}
	require.Equal(t, head != nil, len(q.heads) > 0)
	if head != nil {
		require.Equal(t, *head, q.heads[0].due)
	}
}
