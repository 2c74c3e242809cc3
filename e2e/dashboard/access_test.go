package dashboard

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// barriers returns what axe-core finds on the page by all rules of WCAG 2.2 AA and its best practices.
func (b *browser) barriers(t *testing.T) []string {
	t.Helper()
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	require.NoError(t, err, "make test-dashboard installs axe-core")
	evaluate[bool](t, b, "window.axe ? true : ("+strings.TrimSuffix(strings.TrimSpace(string(axe)), ";")+", true)")
	return evaluate[[]string](t, b, `axe.run(document, {
		runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"], resultTypes: ["violations"],
	}).then((found) => found.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 160) + " " + n.failureSummary)))`)
}

// inspection collects what axe-core finds, so that one run tells everything.
type inspection struct {
	*browser

	found []string
}

// inspect examines what is shown in both schemes, on a screen and on a phone, which it must not be wider than.
func (i *inspection) inspect(t *testing.T, what string) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 360} {
			i.size(t, width, 900, scheme)
			i.truth(t, settled)
			for _, each := range i.barriers(t) {
				i.found = append(i.found, fmt.Sprintf("%s at %d pixels, %s: %s", what, width, scheme, each))
			}
			require.True(t, i.truth(t, `document.documentElement.scrollWidth <= innerWidth`), "%s is not wider than %d pixels", what, width)
		}
	}
	i.size(t, 1440, 900, "light")
	i.truth(t, settled)
}

// visit shows a page and examines it.
func (i *inspection) visit(t *testing.T, url, shown string) {
	t.Helper()
	i.do(t, chromedp.Navigate(url))
	i.shows(t, "main", shown)
	i.inspect(t, url)
}

func TestAxeFindsNoBarrierInAnyViewInBothSchemes(t *testing.T) {
	r, i := start(t), &inspection{browser: open(t)}
	for n := range 3 {
		r.order(t, fmt.Sprintf("order-%d", n), "coffee")
	}
	r.order(t, "order-refused", "unicorn")
	i.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	i.shows(t, ".canvas", "pricing")
	for path, shown := range map[string]string{
		"/": "What wakes what", "/functions": "pricing", "/events": "order.received", "/deadletters": "order.received",
		"/subscriptions": "pricing", "/timers": "hooks.localhost", "/health": "Streams", "/functions/shop/pricing": "Test event",
		"/event?id=order-1.received&source=store": "order.invoiced", "/functions/new": "Subscription", "/functions/shop/pricing/edit": "Subscription",
	} {
		i.visit(t, r.Dashboard+path, shown)
	}
	require.Empty(t, i.found)
	i.clean(t)
}

func TestAxeFindsNoBarrierInWhatIsAskedBeforeAChange(t *testing.T) {
	r, i := start(t), &inspection{browser: open(t)}
	r.order(t, "order-refused", "unicorn")
	i.size(t, 1440, 900, "light")
	i.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	i.shows(t, ".stat.bad", "1")
	i.follow(t, "/deadletters")
	i.shows(t, "main", "order.received")
	i.do(t, click(`tbody tr:nth-child(2) button`))
	i.shows(t, ".opened", "unicorn")
	i.do(t, click(`#all`))
	i.shows(t, ".tools", "1 selected")
	for _, verb := range []string{"Redrive", "Purge"} {
		i.press(t, verb)
		i.shows(t, "dialog[open]", verb+" 1 dead letter?")
		i.inspect(t, verb)
		i.do(t, chromedp.KeyEvent("\u001b"))
		eventually(t, "the dialog is gone", func() bool { return i.truth(t, `document.querySelector("dialog") === null`) })
	}

	i.do(t, chromedp.Navigate(r.Dashboard+"/functions/shop/pricing/edit"))
	i.fill(t, "#function-max", "many")
	i.press(t, "Review")
	i.shows(t, "main", "nothing is written")
	i.inspect(t, "a form with problems")
	i.fill(t, "#function-max", "5")
	i.press(t, "Review")
	i.shows(t, ".diff .added", "5")
	i.inspect(t, "what an edit writes")
	i.press(t, "Back to the form")
	i.press(t, "Discard")
	i.shows(t, "main h1", "pricing")

	i.do(t, chromedp.Navigate(r.Dashboard+"/functions/new"))
	i.fill(t, "#function-name", "greeter")
	i.fill(t, "#subscription-source", "store")
	i.fill(t, "#subscription-types", "order.greeted")
	i.press(t, "Review")
	i.shows(t, ".review", "greeter.yaml")
	i.inspect(t, "what a new Function writes")
	require.Empty(t, i.found)
	i.clean(t)
}

func TestAxeFindsNoBarrierInTheViewsOfACluster(t *testing.T) {
	c, i := startCluster(t, ""), &inspection{browser: open(t)}
	i.visit(t, c.URL+"/functions/shop/pricing#"+strings.Repeat("token", 5), "Events of Kubernetes")
	for button, title := range map[string]string{"Roll back": "Roll pricing back", "Return to the newest": "Return pricing"} {
		i.press(t, button)
		i.shows(t, "dialog[open]", title)
		i.inspect(t, title)
		i.do(t, chromedp.KeyEvent("\u001b"))
		eventually(t, "the dialog is gone", func() bool { return i.truth(t, `document.querySelector("dialog") === null`) })
	}
	i.visit(t, c.URL+"/health", "KEDA does not answer")
	require.Empty(t, i.found)
	i.clean(t)
}

func TestAxeFindsNoBarrierInTheLogin(t *testing.T) {
	i := &inspection{browser: open(t)}
	i.do(t, chromedp.Navigate(startLogin(t).URL))
	asks := func(want string) {
		t.Helper()
		eventually(t, "it asks for a token", func() bool { return strings.Contains(i.text(t, ".login"), want) })
	}
	asks("kubectl create token")
	i.inspect(t, "the login")
	i.refuse(t, "a-guess", "this token is not valid in the cluster")
	i.inspect(t, "a login that was refused")
	i.do(t, chromedp.Navigate(start(t).Dashboard))
	asks("rouse dashboard")
	i.inspect(t, "the login of a user's own machine")
	require.Empty(t, i.found)
}

func TestAxeFindsNoBarrierWhereThereIsNothing(t *testing.T) {
	const token = "#tokentokentokentokentoken"
	i := &inspection{browser: open(t)}
	home := startEmpty(t, true, nil, nil).URL
	for path, shown := range map[string]string{
		"/": "Nothing is here yet", "/functions": "There is no Function yet", "/events": "No event yet", "/events?type=order.*": "No event fits",
		"/deadletters": "There is no dead letter", "/deadletters?reason=SinkRejected": "No dead letter fits", "/subscriptions": "There is no Subscription yet",
		"/timers": "There is no Schedule", "/health": "How full they are is not known here", "/elsewhere": "There is no such page",
		"/event?id=1&source=store": "It was not delivered yet",
	} {
		i.visit(t, home+path+token, shown)
	}

	home = startEmpty(t, false, map[string]any{"shop/quiet": map[string]any{
		"namespace": "shop", "name": "quiet", "runtime": "nodejs22", "phase": "asleep", "desired": 0, "ready": 0, "min": 0, "max": 3, "backlog": 0, "wakes": 0, "restarts": 0,
		"files": []any{}, "environment": []any{}, "pods": []any{}, "at": "/shop/quiet.yaml:1",
	}}, map[string]any{"shop/elsewhere": map[string]any{
		"namespace": "shop", "name": "elsewhere", "source": "store", "types": []string{"order.received"}, "sink": "http://elsewhere.example.com", "function": false,
		"state": "ready", "backlog": 0, "inFlight": 0, "retries": 0, "deadLetters": 0,
	}}).URL
	for path, shown := range map[string]string{
		"/": "Needs you", "/functions?filter=other": "No Function fits", "/subscriptions?filter=other": "No Subscription fits",
		"/functions/new": "You may read here and change nothing", "/functions/shop/quiet": "It has printed nothing yet",
	} {
		i.visit(t, home+path+token, shown)
	}
	i.do(t, chromedp.Navigate(home+"/functions/shop/quiet"))
	i.shows(t, "main", "No event wakes it")
	i.press(t, "Preparation")
	i.shows(t, "main", "There is no line of a build")
	i.inspect(t, "a Function that was never built")
	require.Empty(t, i.found)
	i.clean(t)
}
