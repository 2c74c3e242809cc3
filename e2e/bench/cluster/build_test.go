package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheMedianIsTakenOfEachColumnAndTheWorseLanguageCounts(t *testing.T) {
	t.Parallel()
	rounds := []round{{inline: 3, pod: 1}, {inline: 1, pod: 9}, {inline: 2, pod: 5}}
	require.Equal(t, round{inline: 2, pod: 5}, medianRound(rounds))
	require.Equal(t, round{inline: 2, first: 7, pod: 5}, slower(medianRound(rounds), round{inline: 1, first: 7, pod: 4}))
}

func TestEveryLineIsAsWideAsTheHeader(t *testing.T) {
	t.Parallel()
	row := line("python312", "median", round{inline: time.Second, first: 100 * time.Second, pod: time.Minute})
	require.Len(t, row, len(header()))
	require.Len(t, strings.Fields(row), len(strings.Fields(header())))
}
