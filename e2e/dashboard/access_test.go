package dashboard

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// audit returns what is wrong on a page for people who see little, or use no mouse: texts with too little contrast, fields and buttons
// without a name, a page without its one heading, and ids that are there twice.
const audit = `(() => {
  const found = [];
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] / 255 + under[i] * (1 - top[3] / 255));
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      layers.unshift(color);
      if (color[3] === 255) break;
    }
    return layers.reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest("[disabled], .unseen, .skip, script, noscript, option")) continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    const [a, b] = [light(over(rgba(style.color), under)), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push("contrast " + ratio.toFixed(2) + " of " + element.className + " " + node.data.trim().slice(0, 30));
  }
  for (const field of document.querySelectorAll("input, select, textarea, button, a[href]")) {
    const name = field.getAttribute("aria-label") || field.textContent.trim() || field.labels?.[0]?.textContent.trim();
    if (!name) found.push("no name: " + field.outerHTML.slice(0, 80));
  }
  if (document.querySelectorAll("main h1").length !== 1) found.push("not one h1");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("ids twice");
  return found;
})()`

func TestEveryViewCanBeReadAndNamedInBothSchemes(t *testing.T) {
	r, b := start(t), open(t)
	for i := range 3 {
		r.order(t, fmt.Sprintf("order-%d", i), "coffee")
	}
	r.order(t, "order-refused", "unicorn")
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 360} {
			b.size(t, width, 900, scheme)
			b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
			b.shows(t, ".canvas", "pricing")
			for path, shown := range map[string]string{
				"/": "What wakes what", "/functions": "pricing", "/events": "order.received", "/deadletters": "order.received",
				"/subscriptions": "pricing", "/timers": "nightly", "/health": "Streams", "/functions/shop/pricing": "Test event",
				"/event?id=order-1.received&source=store": "order.invoiced",
			} {
				b.do(t, chromedp.Navigate(r.Dashboard+path))
				b.shows(t, "main", shown)
				require.Empty(t, evaluate[[]string](t, b, audit), "%s at %d pixels, %s", path, width, scheme)
				require.True(t, b.truth(t, `document.documentElement.scrollWidth <= innerWidth`), "%s is not wider than %d pixels", path, width)
			}
		}
	}
	b.clean(t)
}
