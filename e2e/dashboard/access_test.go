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

func TestAxeFindsNoBarrierInAnyViewInBothSchemes(t *testing.T) {
	r, b := start(t), open(t)
	for i := range 3 {
		r.order(t, fmt.Sprintf("order-%d", i), "coffee")
	}
	r.order(t, "order-refused", "unicorn")
	var barriers []string
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 360} {
			b.size(t, width, 900, scheme)
			b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
			b.shows(t, ".canvas", "pricing")
			for path, shown := range map[string]string{
				"/": "What wakes what", "/functions": "pricing", "/events": "order.received", "/deadletters": "order.received",
				"/subscriptions": "pricing", "/timers": "nightly", "/health": "Streams", "/functions/shop/pricing": "Test event",
				"/event?id=order-1.received&source=store": "order.invoiced", "/functions/new": "Subscription", "/functions/shop/pricing/edit": "Subscription",
			} {
				b.do(t, chromedp.Navigate(r.Dashboard+path))
				b.shows(t, "main", shown)
				for _, each := range b.barriers(t) {
					barriers = append(barriers, fmt.Sprintf("%s at %d pixels, %s: %s", path, width, scheme, each))
				}
				require.True(t, b.truth(t, `document.documentElement.scrollWidth <= innerWidth`), "%s is not wider than %d pixels", path, width)
			}
		}
	}
	require.Empty(t, barriers)
	b.clean(t)
}
