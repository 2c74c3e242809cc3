package function

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/fair"
)

func object(namespace string, number int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(number)}
}

// servers take some time to answer.
type servers struct {
	mu          sync.Mutex
	asked, most int
	asking      int
}

func (s *servers) question(namespace string, key any, takes, fresh time.Duration) Question[string] {
	return Question[string]{Key: key, Namespace: namespace, Fresh: fresh, Ask: func(ctx context.Context) (string, error) {
		s.count(1)
		defer s.count(-1)
		select {
		case <-time.After(takes):
			return "yes", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}}
}

func (s *servers) count(change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking += change
	s.most = max(s.most, s.asking)
	if change > 0 {
		s.asked++
	}
}

func (s *servers) seen() (asked, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.most
}

func usual() AskerLimits { return AskerLimits{AtATime: 4, Waiting: 1000, Timeout: 5 * time.Second} }

// start runs an Asker in a bubble whose time is fast.
func start(t *testing.T, limits AskerLimits) *Asker[string] {
	t.Helper()
	a := NewAsker[string](limits)
	go func() { _ = a.Start(t.Context()) }()
	return a
}

// ask is the first time that an object asks.
func ask(a *Asker[string], object types.NamespacedName, question Question[string]) {
	_, _, _ = a.Answer(object, question)
}

func next(a *Asker[string]) types.NamespacedName {
	return client.ObjectKeyFromObject((<-a.Events()).Object)
}

func TestAnObjectIsNotifiedOfTheAnswerItDidNotWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		slow := s.question("shop", "registry", 4*time.Second, 0)
		began := time.Now()
		_, known, _ := a.Answer(object("shop", 1), slow)
		require.False(t, known)
		require.Equal(t, began, time.Now(), "it was blocked")
		require.Equal(t, object("shop", 1), next(a))
		require.Equal(t, 4*time.Second, time.Since(began))
		time.Sleep(time.Hour) // until a worker comes
		answer, known, err := a.Answer(object("shop", 1), slow)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, "yes", answer)
		_, known, _ = a.Answer(object("shop", 1), slow)
		require.False(t, known, "it was given once")
	})
}

func TestEqualQuestionsAreAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		same := s.question("shop", "registry", time.Second, 10*time.Second)
		for i := range 20 {
			_, known, _ := a.Answer(object("shop", i), same)
			require.False(t, known)
			_, known, _ = a.Answer(object("shop", i), same)
			require.False(t, known)
		}
		notified := map[types.NamespacedName]bool{}
		for range 20 {
			notified[next(a)] = true
		}
		require.Len(t, notified, 20)
		for i := range 30 { // ten of them come later
			_, known, _ := a.Answer(object("shop", i), same)
			require.True(t, known)
		}
		asked, _ := s.seen()
		require.Equal(t, 1, asked)
		time.Sleep(10 * time.Second)
		_, known, _ := a.Answer(object("shop", 1), same)
		require.False(t, known, "the answer is too old")
	})
}

func TestServersOfOneNamespaceTakeNoMoreThanTheyLeaveFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		for i := range 100 {
			ask(a, object("hostile", i), s.question("hostile", i, time.Hour, 0))
		}
		synctest.Wait()
		_, most := s.seen()
		require.Equal(t, 2, most)
		began := time.Now()
		ask(a, object("shop", 1), s.question("shop", "shop", 100*time.Millisecond, 0))
		require.Equal(t, object("shop", 1), next(a), "it comes past 98 that wait")
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func TestAServerThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		mute := s.question("shop", "registry", time.Hour, 0)
		began := time.Now()
		ask(a, object("shop", 1), mute)
		next(a)
		require.Equal(t, 5*time.Second, time.Since(began))
		_, known, err := a.Answer(object("shop", 1), mute)
		require.True(t, known)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestTooManyQuestionsAreAnsweredWithAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, AskerLimits{AtATime: 2, Waiting: 4, Timeout: time.Minute}), &servers{}
		refused := 0
		for i := range 10 {
			question := s.question("hostile", i, time.Minute, 0)
			ask(a, object("hostile", i), question)
		}
		for range 7 { // one is asked, two wait
			name := next(a)
			number, err := strconv.Atoi(name.Name)
			require.NoError(t, err)
			_, known, err := a.Answer(name, s.question("hostile", number, time.Minute, 0))
			require.True(t, known)
			if errors.Is(err, fair.ErrFull) {
				refused++
			}
		}
		require.Equal(t, 7, refused)
		ask(a, object("shop", 1), s.question("shop", "shop", time.Second, 0))
		require.Equal(t, object("shop", 1), next(a))
	})
}

func TestAnObjectThatIsForgottenOrAsksSomethingElseIsNotNotified(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := start(t, usual()), &servers{}
		ask(a, object("shop", 1), s.question("shop", "old", time.Second, 0))
		ask(a, object("shop", 1), s.question("shop", "new", 2*time.Second, 0))
		ask(a, object("shop", 2), s.question("shop", "old", time.Second, 0))
		a.Forget(object("shop", 2))
		began := time.Now()
		require.Equal(t, object("shop", 1), next(a))
		require.Equal(t, 2*time.Second, time.Since(began))
		_, known, _ := a.Answer(object("shop", 1), s.question("shop", "new", time.Second, 0))
		require.True(t, known)
		ask(a, object("shop", 3), s.question("shop", "last", time.Second, 0))
		next(a)
		a.Forget(object("shop", 3))
		ask(a, object("shop", 4), s.question("shop", "very last", time.Second, 0))
		next(a)
		a.mu.Lock()
		defer a.mu.Unlock()
		require.Len(t, a.known, 1, "nothing is kept that nobody waits for")
		require.Len(t, a.of, 1)
	})
}
