package dev

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// facts are the printed lines without their time, their kind and their source.
func facts(printed string) []string {
	prefix := regexp.MustCompile(`^\S+ +(?:(?:function|problem|log) +(\S+) +)?(?:(?:rouse|stderr): )?`)
	var found []string
	for line := range strings.SplitSeq(strings.TrimSpace(printed), "\n") {
		found = append(found, prefix.ReplaceAllString(line, "$1 "))
	}
	return found
}

func TestPlainPrintsEachThingOnce(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	named := func(name, source string) string { return strings.ReplaceAll(greeter(source), "greeter", name) }
	write(t, directory, "refuser.yaml", named("refuser", "module.exports.main = event => { event.setResponseStatus(400); return 'no ' + event.data.id }"))
	write(t, directory, "broken.yaml", named("broken", "throw new Error('cannot start')"))
	write(t, directory, "packages.yaml", strings.Replace(named("packages", "module.exports.main = () => {}"), "inline:\n", "inline:\n      dependencies: '{\"dependencies\": {\"Lo Dash!\": \"1\"}}'\n", 1))
	w := run(t, directory)
	w.emit(t, "1", `{"id":"1"}`)
	const again = "it is started again in 1s"
	await(t, "all of them have failed", func() bool {
		text := w.out.String()
		return strings.Contains(text, again) && strings.Contains(text, "dead letter") && strings.Contains(text, "problem  packages")
	})
	require.NoError(t, w.stop())

	text := w.out.String()
	times := map[string]int{}
	for _, fact := range facts(text) {
		times[fact]++
	}
	for fact, n := range times {
		if !strings.Contains(fact, "handler did not load") && !strings.Contains(fact, "     at ") { // which it prints each time that it is started
			require.Equal(t, 1, n, "%q in\n%s", fact, text)
		}
	}
	for _, once := range []string{
		"cannot start (exit status 1); " + again, "dead letter after 1 attempt", "refuser   ready", "packages  failing",
		" runs with Node.js ",
	} {
		require.LessOrEqual(t, strings.Count(text, once), 1, "%q in\n%s", once, text)
	}
	require.NotContains(t, text, "ready after", "the view says that it is ready")
}
