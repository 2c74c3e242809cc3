package alerts

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// round is the time between readings.
const round = 30 * time.Second

// installation is what pods report, round after round.
type installation struct {
	t     *testing.T
	watch *Watch
	now   time.Time
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	limits, err := ParseLimits("")
	require.NoError(t, err)
	return &installation{t: t, watch: NewWatch(limits), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// reading returns what a pod reports whose process started an hour before the test.
func (i *installation) reading(pod, text string) Reading {
	i.t.Helper()
	if !strings.Contains(text, started) {
		text = started + " 1767222000\n" + text
	}
	found, err := Decode(pod, strings.NewReader(text))
	require.NoError(i.t, err)
	return found
}

// shows has one pod report a text, which may depend on the round, for a time.
func (i *installation) shows(text func(round int) string, during time.Duration) {
	i.t.Helper()
	for at := range int(during/round) + 1 {
		i.observe(i.reading("bridge-1", text(at)))
	}
}

func (i *installation) observe(readings ...Reading) {
	i.watch.Observe(i.now, readings, []string{"bridge-1", "bridge-2", "controller-1"})
	i.now = i.now.Add(round)
}

func (i *installation) firing() []string {
	found := []string{}
	for _, each := range i.alerts("") {
		found = append(found, each.Name)
	}
	return found
}

func (i *installation) alerts(of string) []Alert { return i.watch.State(of, 100).Firing }

func always(text string) func(int) string { return func(int) string { return text + "\n" } }

func TestAnAlertFiresWhenItsConditionHasHeld(t *testing.T) {
	t.Parallel()
	const of = `{namespace="shop",subscription="orders"}`
	grows := func(at int) string { return fmt.Sprintf("%s%s %d\n", backlogEvents, of, 2000+at) }
	fails := func(failed, done int) func(int) string {
		return func(at int) string {
			return fmt.Sprintf("%[1]s{namespace=\"shop\",subscription=\"orders\",outcome=\"retry\"} %[2]d\n%[1]s{namespace=\"shop\",subscription=\"orders\",outcome=\"ack\"} %[3]d\n",
				deliveries, failed*at, done*at)
		}
	}
	counts := func(series string, each int) func(int) string {
		return func(at int) string { return fmt.Sprintf("%s %d\n", series, 7+each*at) }
	}
	for name, tc := range map[string]struct {
		shows  func(round int) string
		during time.Duration
		want   []string
	}{
		"a backlog that grows, soon":        {grows, 14 * time.Minute, nil},
		"a backlog that grows, for long":    {grows, 16 * time.Minute, []string{"RouseBacklogGrows"}},
		"a backlog that stays":              {always(backlogEvents + of + " 2000"), time.Hour, nil},
		"a small backlog":                   {func(at int) string { return fmt.Sprintf("%s%s %d\n", backlogEvents, of, at) }, time.Hour, nil},
		"no new dead letters":               {counts(deadLetters+`{namespace="shop",subscription="orders",reason="Rejected"}`, 0), time.Hour, nil},
		"a dead letter":                     {counts(deadLetters+`{namespace="shop",subscription="orders",reason="Rejected"}`, 1), round, []string{"RouseDeadLetters"}},
		"dead letters that were dropped":    {counts(dropped+`{namespace="shop"}`, 1), round, []string{"RouseDeadLettersDropped"}},
		"a quota":                           {always(quotaExceeded + `{namespace="shop"} 1`), 0, []string{"RouseQuotaExceeded"}},
		"no quota":                          {always(quotaExceeded + `{namespace="shop"} 0`), time.Hour, nil},
		"a stream that fills, soon":         {always(streamFill + `{stream="EVENTS"} 0.8`), 4 * time.Minute, nil},
		"a stream that fills":               {always(streamFill + `{stream="EVENTS"} 0.8`), 5 * time.Minute, []string{"RouseStreamFills"}},
		"a stream that is nearly full":      {always(streamFill + `{stream="EVENTS"} 0.95`), 5 * time.Minute, []string{"RouseStreamNearlyFull", "RouseStreamFills"}},
		"a stream that fills, to and fro":   {func(at int) string { return fmt.Sprintf("%s{stream=\"EVENTS\"} 0.%d\n", streamFill, 79+at%2) }, time.Hour, []string{"RouseStreamFills"}},
		"a consumer that was recovered":     {counts(recoveries+`{namespace="shop",subscription="orders",remedy="recreate"}`, 1), round, []string{"RouseConsumerStuck"}},
		"a foreign consumer":                {always(foreignPending + `{consumer="a"} 1001`), 15 * time.Minute, []string{"RouseForeignConsumer"}},
		"a foreign consumer with little":    {always(foreignPending + `{consumer="a"} 1000`), time.Hour, nil},
		"no connection, shortly":            {always(connected + " 0"), time.Minute, nil},
		"no connection":                     {always(connected + " 0"), 2 * time.Minute, []string{"RouseNoConnectionToNATS"}},
		"a connection":                      {always(connected + " 1"), time.Hour, nil},
		"deliveries that fail, soon":        {fails(6, 4), 14 * time.Minute, nil},
		"deliveries that fail":              {fails(6, 4), 16 * time.Minute, []string{"RouseDeliveriesFail"}},
		"deliveries of which half fail":     {fails(5, 5), time.Hour, nil},
		"settings that are refused":         {always(settingsValid + `{file="senders.yaml"} 0`), 2 * time.Minute, []string{"RouseSettingsRefused"}},
		"settings that are used":            {always(settingsValid + `{file="senders.yaml"} 1`), time.Hour, nil},
		"backlogs that cannot be read":      {counts(refreshErrors, 1), 11 * time.Minute, []string{"RouseBacklogUnknown"}},
		"backlogs that could not be read":   {counts(refreshErrors, 0), time.Hour, nil},
		"a metric that no rule reads":       {always(`up{namespace="shop"} 0`), time.Hour, nil},
		"a pod that reports nothing at all": {always(""), time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			i.shows(tc.shows, tc.during)
			require.ElementsMatch(t, tc.want, i.firing())
		})
	}
}

func TestAnAlertEndsWithItsCondition(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	letters := func(n int) func(int) string {
		return always(fmt.Sprintf("%s{namespace=\"shop\",subscription=\"orders\",reason=\"Rejected\"} %d", deadLetters, n))
	}
	i.shows(letters(0), round)
	i.shows(letters(3), 14*time.Minute)
	require.Equal(t, []string{"RouseDeadLetters"}, i.firing())
	require.Contains(t, i.alerts("")[0].Summary, "3 events of Subscription shop/orders became dead letters")
	i.shows(letters(3), 2*time.Minute)
	require.Empty(t, i.firing(), "they are older than 15 minutes")
}

func TestWhatAPodHasCountedBeforeIsNoAlert(t *testing.T) {
	t.Parallel()
	text := func(start, letters int) string {
		return fmt.Sprintf("%s %d\n%s{namespace=\"shop\",subscription=\"orders\",reason=\"Rejected\"} %d\n", started, start, deadLetters, letters)
	}
	const before, after = 1767222000, 1767225610
	for name, tc := range map[string]struct {
		then   string
		pod    string
		letter string // how many are counted
	}{
		"nothing new":                              {text(before, 5), "bridge-1", ""},
		"one more":                                 {text(before, 6), "bridge-1", "1 events"},
		"a process that was started again":         {text(after, 7), "bridge-1", "7 events"},
		"a pod that was not read before":           {text(before, 7), "bridge-2", ""},
		"a pod that has started since":             {text(after, 2), "bridge-2", "2 events"},
		"a counter that was set back, as none may": {text(before, 2), "bridge-1", "2 events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			i.observe(i.reading("bridge-1", text(before, 5)))
			require.Empty(t, i.firing())
			i.now = time.Unix(after, 0).Add(round)
			i.observe(i.reading(tc.pod, tc.then))
			found := i.alerts("")
			if tc.letter == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.True(t, strings.HasPrefix(found[0].Summary, tc.letter), found[0].Summary)
		})
	}
}

func TestAPodThatDoesNotAnswerIsJudgedByItsNextReading(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	letters := func(n int) Reading {
		return i.reading("bridge-1", fmt.Sprintf("%s{namespace=\"shop\",subscription=\"orders\",reason=\"Rejected\"} %d\n", deadLetters, n))
	}
	i.observe(letters(5))
	i.observe()
	i.observe(letters(6))
	require.Contains(t, i.alerts("")[0].Summary, "1 events of Subscription shop/orders")
}

func TestProcessesThatDoNotReportAreCounted(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	require.Nil(t, i.watch.State("", 10), "nothing is known yet")
	i.observe(i.reading("bridge-1", connected+" 1\n"))
	require.Equal(t, &State{Firing: []Alert{}, Silent: 2}, i.watch.State("", 10))
}

func TestANamespaceSeesItsAlertsAlone(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.shows(always(quotaExceeded+"{namespace=\"shop\"} 1\n"+quotaExceeded+"{namespace=\"other\"} 1\n"+connected+" 0"), 2*time.Minute)
	require.Len(t, i.alerts(""), 3)
	found := i.alerts("shop")
	require.Len(t, found, 1)
	require.Equal(t, "shop", found[0].Namespace)
	require.Empty(t, i.alerts("nobodys"))
	require.Len(t, i.watch.State("", 2).Firing, 2)
}

func TestANamespaceWithEndlessSeriesHidesNoOthers(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	var text strings.Builder
	for n := range mostSeries + 100 {
		fmt.Fprintf(&text, "%s{namespace=\"greedy\",subscription=\"s%d\"} 1\n", backlogEvents, n)
	}
	fmt.Fprintf(&text, "%s{namespace=\"shop\",subscription=\"orders\"} 1\n", backlogEvents)
	i.observe(i.reading("controller-1", text.String()))
	kept := i.watch.history.latest(backlogEvents)
	require.Len(t, kept, mostSeries+1)
	require.Contains(t, kept, subject{"shop", "orders", ""})
}

func TestReadingsAreForgottenAfterTheirWindow(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.shows(always(backlogEvents+`{namespace="shop",subscription="orders"} 1`), 3*time.Hour)
	for name, m := range measures {
		require.LessOrEqual(t, len(i.watch.history.ticks[name]), int(m.window/round)+1, name)
	}
	i.watch.Observe(i.now, nil, nil)
	require.Empty(t, i.watch.history.pods)
}

// What the chart has in a range over names and levels.
var (
	ranged = regexp.MustCompile(`"(Rouse\w+)" \(list "(\w+)"`)
	inRule = regexp.MustCompile(`(?m)^        - alert: (\w+)$`)
	lasts  = regexp.MustCompile(`(?m)^          for: (\S.*)$`)
	isA    = regexp.MustCompile(`labels: \{severity: (\w+)\}`)
)

// chart returns the alerts of the chart's template: name, severity and duration.
func chart(t *testing.T, limits *Limits) []string {
	t.Helper()
	text, err := os.ReadFile("../../charts/rouse/templates/alerts.yaml")
	require.NoError(t, err)
	found := []string{}
	parts := strings.Split(string(text), "        - alert: ")
	for _, part := range parts[1:] {
		part = "        - alert: " + part
		duration := "0s"
		if match := lasts.FindStringSubmatch(part); match != nil {
			duration = strings.Replace(match[1], "{{ .backlogFor }}", limits.BacklogFor.String(), 1)
		}
		parsed, err := model.ParseDuration(duration)
		require.NoError(t, err)
		if name := inRule.FindStringSubmatch(part); name != nil {
			found = append(found, fmt.Sprint(name[1], " ", isA.FindStringSubmatch(part)[1], " ", time.Duration(parsed)))
			continue
		}
		for _, each := range ranged.FindAllStringSubmatch(string(text), -1) {
			found = append(found, fmt.Sprint(each[1], " ", each[2], " ", time.Duration(parsed)))
		}
	}
	return found
}

func TestTheRulesAreThoseOfTheChart(t *testing.T) {
	t.Parallel()
	limits, err := ParseLimits("")
	require.NoError(t, err)
	own := []string{}
	for _, each := range rules {
		own = append(own, fmt.Sprint(each.name, " ", each.severity, " ", each.holds(&limits)))
	}
	require.ElementsMatch(t, chart(t, &limits), own)
	text, err := os.ReadFile("../../charts/rouse/templates/alerts.yaml")
	require.NoError(t, err)
	for name := range measures {
		require.Contains(t, string(text), name, "a metric that no rule of the chart reads")
	}
}

func TestThresholdsAreReadAndWrongOnesRefused(t *testing.T) {
	t.Parallel()
	limits, err := ParseLimits(`{"backlogEvents":5,"backlogFor":"1h"}`)
	require.NoError(t, err)
	require.InDelta(t, 5, limits.BacklogEvents, 0)
	require.Equal(t, model.Duration(time.Hour), limits.BacklogFor)
	require.InDelta(t, 0.8, limits.StorageRatio, 0, "the others stay")
	for text, says := range map[string]string{
		`{"backlog":5}`: `unknown field "backlog"`, `{"backlogFor":"soon"}`: "duration", `[]`: "thresholds of alerts",
	} {
		_, err := ParseLimits(text)
		require.ErrorContains(t, err, says)
	}
}

func TestWhatIsNoMetricsIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Decode("bridge-1", strings.NewReader("<html>"))
	require.ErrorContains(t, err, "metrics of pod bridge-1: ")
	require.True(t, slices.Contains(Names(), deadLetters))
}
