package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func TestAUserSeesAnEventWakeAChainAndRedrivesADeadLetter(t *testing.T) {
	r, b := start(t), open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	require.True(t, b.truth(t, `location.hash === ""`), "the token is gone from the address")
	b.shows(t, ".link", "live")

	r.order(t, "order-1", "coffee")
	eventually(t, "the Function at the end of the chain glows", func() bool {
		return b.truth(t, `document.querySelector('.node.function.awake[href="/functions/shop/recorder"]') !== null`)
	})
	b.follow(t, "/events")
	b.shows(t, "main", "order.invoiced")
	b.do(t, clickPath(`//a[text()="order.priced"]`))
	b.shows(t, ".waterfall", "order.invoiced")
	b.shows(t, "main", `"net": 900`)

	r.order(t, "order-2", "unicorn")
	b.follow(t, "/deadletters")
	b.shows(t, "main", "order.received")
	b.do(t, click(`#all`))
	b.shows(t, ".tools", "1 selected")
	b.do(t, clickPath(`//button[text()="Purge"]`))
	b.shows(t, "dialog", "Purge 1 dead letter?")
	b.do(t, clickPath(`//dialog//button[text()="Purge 1"]`))
	b.shows(t, "dialog", "1 done")
	b.do(t, clickPath(`//dialog//button[text()="Close"]`))
	b.shows(t, "main", "There is no dead letter.")
	b.clean(t)
}

func TestNamesAndLogsThatAreMarkupAreShownAsText(t *testing.T) {
	r, b := start(t), open(t)
	b.size(t, 1440, 900, "dark")
	const markup = `<img src=x onerror="window.attacked=true">`
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	r.publish(t, "order.received", "store", markup, map[string]any{"id": markup, "lines": []any{}})
	r.publish(t, "order.unwanted", markup, "2", markup)
	b.follow(t, "/events")
	b.shows(t, "main", "<img src=x")
	b.follow(t, "/functions")
	b.do(t, click(`a[href="/functions/shop/pricing"]`))
	b.shows(t, ".log", markup)
	b.follow(t, "/")
	b.shows(t, ".lately", "order.unwanted")
	require.False(t, b.truth(t, `window.attacked === true || document.querySelector("img") !== null`))
	b.clean(t)
}

func TestTheKeyboardAndTheNavigationReachEveryView(t *testing.T) {
	r, b := start(t), open(t)
	b.size(t, 360, 800, "light")
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, "main", "What wakes what")
	for key, want := range map[string]string{
		"f": "Functions", "e": "Events", "d": "Dead letters", "s": "Subscriptions", "t": "Schedules and Doors", "h": "Health",
	} {
		b.do(t, chromedp.KeyEvent("g"), chromedp.KeyEvent(key))
		b.shows(t, "main h1", want)
		require.True(t, b.truth(t, `document.documentElement.scrollWidth <= innerWidth`), "%s is not wider than a phone", want)
	}
	b.do(t, chromedp.KeyEvent("g"), chromedp.KeyEvent("f"))
	b.shows(t, "main h1", "Functions")
	b.do(t, chromedp.KeyEvent("/"))
	require.True(t, b.truth(t, `document.activeElement.type === "search"`))
	b.size(t, 1440, 900, "light")
	b.do(t, click(`.keys`), chromedp.KeyEvent("g"), chromedp.KeyEvent("e"))
	b.shows(t, ".keys", "Shortcuts: off")
	require.Equal(t, "Functions", b.text(t, "main h1"), "keys that are turned off do nothing")
	b.clean(t)
}
