package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingEventsAreAttributedToTheReleaseThatStoredThem(t *testing.T) {
	t.Parallel()
	taken := []event{
		{chain: relay, key: "a"},
		{chain: relay, key: "b"},
		{chain: relay, key: "c", rollback: true},
		{chain: refuser, key: "d"},
		{chain: refuser, key: "e", rollback: true},
	}
	for name, tc := range map[string]struct {
		handled            []string
		kept               map[string]kept
		lost, rollbackLost int
		why                []string
	}{
		"everything is handled or kept": {handled: []string{"a", "b", "c"}, kept: map[string]kept{refuser: {deadLetters: 2}}},
		"an event is pending":           {handled: []string{"a", "b"}, kept: map[string]kept{relay: {pending: 1}, refuser: {deadLetters: 1, pending: 1}}},
		"an event of each chain is lost": {
			handled: []string{"b"}, kept: map[string]kept{refuser: {deadLetters: 2}},
			lost: 1, rollbackLost: 1, why: []string{"a is lost", "c is lost"},
		},
		"a dead letter is lost": {
			handled: []string{"a", "b", "c"}, kept: map[string]kept{refuser: {deadLetters: 1}},
			lost: 1, why: []string{"d is lost"},
		},
		"remaining events of another chain do not count": {
			handled: []string{"a", "b"}, kept: map[string]kept{refuser: {deadLetters: 3}}, rollbackLost: 1, why: []string{"c is lost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handled := map[string]bool{}
			for _, key := range tc.handled {
				handled[key] = true
			}
			lost, rollbackLost, why := missing(taken, handled, tc.kept)
			require.Equal(t, tc.lost, lost)
			require.Equal(t, tc.rollbackLost, rollbackLost)
			require.Equal(t, tc.why, why)
			require.Equal(t, tc.lost+tc.rollbackLost == 0, result{published: 1, lost: lost, rollbackLost: rollbackLost}.err() == nil)
		})
	}
}

func TestTestedVersionsOfNATSAreInTheTable(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../../" + natsModule + "/go.mod")
	require.NoError(t, err)
	now := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(module)
	require.NotNil(t, now)
	page, err := os.ReadFile("../../docs/compatibility.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "tried from "+strings.TrimPrefix(natsBefore, "v")+" to "+string(now[1])+" and back")
}

func TestEveryPairOfComponentsMeetsInBothDirections(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, mix := range mixes() {
		for _, older := range mix {
			for _, component := range components() {
				if !slices.Contains(mix, component) {
					met[older+" with a newer "+component] = true
				}
			}
		}
	}
	for _, one := range components() {
		for _, other := range components() {
			require.True(t, one == other || met[one+" with a newer "+other], "%s with a newer %s", one, other)
		}
	}
}
