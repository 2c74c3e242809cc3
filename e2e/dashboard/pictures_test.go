package dashboard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// album makes the pictures of the documentation, each in light, in dark and as wide as a phone.
type album struct {
	*browser

	folder string
}

// openAlbum skips the test unless make screenshots names a folder.
func openAlbum(t *testing.T) album {
	t.Helper()
	folder := os.Getenv("ROUSE_SCREENSHOTS")
	if folder == "" {
		t.Skip("make screenshots sets ROUSE_SCREENSHOTS")
	}
	return album{open(t), folder}
}

const (
	wide, narrow = 1280, 360
	phoneHeight  = 780
)

// variants are the forms of each picture, by the end of its name.
var variants = []struct{ end, scheme string }{{"", "light"}, {"-dark", "dark"}, {"-phone", "light"}}

// shot writes the pictures of the page. Before each of them, ready brings the page to the moment that is worth one.
func (a album) shot(t *testing.T, name string, height int64, ready ...func()) {
	t.Helper()
	for _, v := range variants {
		width, tall := int64(wide), height
		if v.end == "-phone" {
			width, tall = narrow, phoneHeight
		}
		a.size(t, width, tall, v.scheme)
		a.do(t, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, float64(width)-2, float64(tall)-2)) // nothing is under it
		a.truth(t, inTypeface+settled)
		for _, do := range ready {
			do()
		}
		picture, err := chromedp.Run(a, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		file := filepath.Join(a.folder, "dashboard-"+name+v.end+".png")
		require.NoError(t, os.WriteFile(file, small(t, picture), 0o644))
		a.truth(t, `(window.thaw?.(), true)`)
	}
	a.size(t, wide, 900, "light")
	a.truth(t, settled)
	a.clean(t)
}

// inTypeface sets the page in a typeface that looks alike everywhere, and like those that most users have.
const inTypeface = `document.documentElement.style.fontFamily = "Inter, system-ui, sans-serif";`

// moving waits for a moment in which events are on their way on all of the graph, and stops the page there until thaw is called.
const moving = `new Promise((done) => {
	const until = Date.now() + 3000;
	const look = () => {
		const dots = [...document.querySelectorAll("#dots circle:not([visibility])")].map((c) => [+c.getAttribute("cx"), +c.getAttribute("cy")]);
		const canvas = document.querySelector(".canvas");
		const spread = (axis) => Math.max(...dots.map((d) => d[axis])) - Math.min(...dots.map((d) => d[axis]));
		const places = new Set(dots.map((d) => d.map((n) => Math.round(n / 8)).join()));
		const across = spread(0) > canvas.clientWidth / 2 && canvas.clientWidth > 400;
		const found = places.size >= 6 && !document.querySelector(".key .chip") && (across || spread(1) > canvas.clientHeight / 3);
		if (!found && Date.now() < until) return setTimeout(look, 10);
		if (!found) return done(false);
		const [real, held] = [window.requestAnimationFrame, []];
		window.requestAnimationFrame = (f) => held.push(f);
		window.thaw = () => {
			window.requestAnimationFrame = real;
			delete window.thaw;
			for (const f of held) real(f);
		};
		done(true);
	};
	look();
})`

func TestScreenshots(t *testing.T) {
	a := openAlbum(t)
	r := start(t)
	a.size(t, wide, 900, "light")
	a.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	a.shows(t, ".canvas", "pricing")
	products := []string{"coffee", "cake", "tea"}
	number := 1000
	orders := func(n int) {
		for range n {
			number++
			r.order(t, fmt.Sprintf("order-%d", number), products[number%len(products)])
		}
	}
	orders(12)
	r.order(t, "order-1900", "unicorn")
	r.order(t, "order-1901", "dragon")
	eventually(t, "the chain was learned", func() bool {
		return a.truth(t, `document.querySelector('.node.function.awake[href="/functions/shop/recorder"]') !== null`)
	})
	a.shows(t, ".stat.bad", "2")
	a.shot(t, "overview", 900, func() {
		eventually(t, "events are on their way", func() bool {
			orders(4)
			return a.truth(t, moving)
		})
	})
	a.pages(t, r, orders)
	a.forms(t)
}

// pages makes the pictures of what is read.
func (a album) pages(t *testing.T, r *rouse, orders func(n int)) {
	t.Helper()
	for _, view := range []struct{ path, shown string }{
		{"functions", "pricing"}, {"events", "order.invoiced"}, {"subscriptions", "recorder"}, {"timers", "nightly"},
	} {
		orders(3)
		a.follow(t, "/"+view.path)
		a.shows(t, "main", view.shown)
		a.shot(t, view.path, 760)
	}
	a.follow(t, "/deadletters")
	a.shows(t, "main", "order.received")
	a.do(t, click(`tbody tr:nth-child(2) button`))
	a.shows(t, ".opened", "unicorn")
	a.do(t, click(`#all`))
	a.shows(t, ".tools", "2 selected")
	a.press(t, "Redrive")
	a.shows(t, "dialog[open]", "Redrive 2 dead letters?")
	a.shot(t, "deadletters", 760)
	a.do(t, chromedp.KeyEvent("\u001b"))
	a.do(t, chromedp.Navigate(r.Dashboard+"/event?id=order-1003.received&source=store"))
	a.shows(t, ".waterfall", "order.invoiced")
	a.shot(t, "event", 760)
	a.do(t, chromedp.Navigate(r.Dashboard+"/functions/shop/pricing"))
	orders(3)
	a.shows(t, ".log", "pricing order")
	a.shows(t, "main", "Woken")
	a.shot(t, "function", 1080)
}

// forms makes the pictures of what is written.
func (a album) forms(t *testing.T) {
	t.Helper()
	a.do(t, clickPath(`//a[text()="Edit"]`))
	a.fill(t, "#function-max", "5")
	a.shot(t, "form", 900)
	a.press(t, "Review")
	a.shows(t, ".review", "This will be written")
	a.shot(t, "review", 760)
	a.press(t, "Back to the form")
	a.press(t, "Discard") // or the browser asks before it leaves the page
}

// TestScreenshotsOfACluster is TestScreenshots for what local mode does not have.
func TestScreenshotsOfACluster(t *testing.T) {
	a := openAlbum(t)
	c := startCluster(t, "")
	a.size(t, wide, 900, "light")
	a.do(t, chromedp.Navigate(c.URL+"/functions/shop/pricing#"+strings.Repeat("token", 5)))
	a.shows(t, "main", "Events of Kubernetes")
	a.shot(t, "cluster", 1080)
	a.follow(t, "/health")
	a.shows(t, "main", "KEDA does not answer")
	a.shot(t, "health", 760)
}

func TestScreenshotsOfTheLogin(t *testing.T) {
	a := openAlbum(t)
	a.size(t, wide, 900, "light")
	a.do(t, chromedp.Navigate(startLogin(t).URL))
	eventually(t, "it asks for a token", func() bool { return strings.Contains(a.text(t, ".login"), "kubectl create token") })
	a.quiet()
	a.shot(t, "login", 640)
}
