package dashboard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// pictured are the pictures of the documentation. ROUSE_EVERY_SCREENSHOT=1 makes the others too, to look at.
var pictured = []string{"overview", "function", "overview-phone"}

// shot writes a picture of the page.
func (b *browser) shot(t *testing.T, folder, name string, width, height int64, scheme string) {
	t.Helper()
	if !slices.Contains(pictured, name) && os.Getenv("ROUSE_EVERY_SCREENSHOT") == "" {
		return
	}
	b.size(t, width, height, scheme)
	time.Sleep(900 * time.Millisecond) // the layout and the transitions end
	picture, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "dashboard-"+name+".png"), picture, 0o644))
}

// TestScreenshotsOfACluster is TestScreenshots for what local mode does not have.
func TestScreenshotsOfACluster(t *testing.T) {
	folder := os.Getenv("ROUSE_SCREENSHOTS")
	if folder == "" {
		t.Skip("make screenshots sets ROUSE_SCREENSHOTS")
	}
	c, b := startCluster(t, ""), open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(c.URL+"/functions/shop/pricing#"+strings.Repeat("token", 5)))
	b.shows(t, "main", "Events of Kubernetes")
	b.shot(t, folder, "cluster", 1440, 1500, "light")
	b.shot(t, folder, "cluster-dark", 1440, 1500, "dark")
	b.shot(t, folder, "cluster-phone", 360, 2600, "light")
	b.size(t, 1440, 900, "light")
	b.do(t, click(`[aria-label="Roll back to 02ffc81b35"]`))
	b.shows(t, "dialog[open]", "Roll pricing back")
	b.shot(t, folder, "rollback", 1440, 900, "dark")
	b.do(t, chromedp.KeyEvent("\u001b"))
	b.size(t, 1440, 900, "light")
	b.follow(t, "/health")
	b.shows(t, "main", "KEDA does not answer")
	b.shot(t, folder, "health-cluster", 1440, 900, "light")
	b.shot(t, folder, "health-cluster-phone", 360, 780, "dark")
	b.clean(t)
}

// TestScreenshots writes the pictures of the documentation, where make screenshots names a folder.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("ROUSE_SCREENSHOTS")
	if folder == "" {
		t.Skip("make screenshots sets ROUSE_SCREENSHOTS")
	}
	r, b := start(t), open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	products := []string{"coffee", "cake", "tea"}
	for i := range 12 {
		r.order(t, fmt.Sprintf("order-%d", 1001+i), products[i%len(products)])
	}
	r.order(t, "order-1100", "unicorn")
	r.order(t, "order-1101", "dragon")
	eventually(t, "the chain was learned", func() bool {
		return b.truth(t, `document.querySelector('.node.function.awake[href="/functions/shop/recorder"]') !== null`)
	})
	shot := func(name string, width, height int64, scheme string) { b.shot(t, folder, name, width, height, scheme) }
	for i := range 8 {
		r.order(t, fmt.Sprintf("order-%d", 1200+i), products[i%len(products)])
	}
	time.Sleep(500 * time.Millisecond)
	shot("overview", 1440, 900, "light")
	r.order(t, "order-1300", "tea")
	shot("overview-dark", 1440, 900, "dark")
	shot("overview-phone", 360, 780, "light")
	b.size(t, 1440, 900, "light")
	for _, view := range []string{"functions", "events", "deadletters", "subscriptions", "timers", "health"} {
		b.size(t, 1440, 900, "light")
		b.follow(t, "/"+view)
		time.Sleep(time.Second)
		shot(view, 1440, 900, "light")
		shot(view+"-phone", 360, 780, "dark")
	}
	b.size(t, 1440, 900, "light")
	b.follow(t, "/deadletters")
	b.do(t, click(`tbody tr button`), click(`#all`))
	shot("deadletters-open", 1440, 900, "dark")
	b.do(t, clickPath(`//button[text()="Redrive"]`))
	shot("redrive", 1440, 900, "light")
	b.do(t, chromedp.KeyEvent("\u001b"))
	b.follow(t, "/functions")
	b.do(t, click(`a[href="/functions/shop/pricing"]`))
	b.shows(t, ".log", "pricing order")
	shot("function", 1440, 1100, "light")
	shot("function-dark", 1440, 1100, "dark")
	shot("function-phone", 360, 780, "light")
	b.size(t, 1440, 900, "light")
	b.do(t, clickPath(`//a[text()="Edit"]`))
	b.fill(t, "#function-max", "5")
	shot("form", 1440, 900, "light")
	shot("form-dark", 1440, 900, "dark")
	shot("form-phone", 360, 780, "light")
	b.size(t, 1440, 900, "light")
	b.press(t, "Review")
	b.shows(t, ".review", "This is written")
	shot("review", 1440, 900, "light")
	shot("review-phone", 360, 780, "dark")
	b.size(t, 1440, 900, "light")
	b.press(t, "Back to the form")
	b.fill(t, "#function-max", "many")
	b.press(t, "Review")
	b.shows(t, "main", "nothing is written")
	shot("refused", 1440, 900, "light")
	b.press(t, "Discard") // or the browser asks before it leaves the page
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(r.Dashboard+"/event?id=order-1003.received&source=store"))
	b.shows(t, ".waterfall", "order.invoiced")
	shot("event", 1440, 900, "light")
	shot("event-phone", 360, 780, "dark")
	b.clean(t)
}
