package dashboard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func TestAUserCreatesAFunctionCallsItAndEditsIt(t *testing.T) {
	r, b := start(t), open(t)
	b.size(t, 1440, 900, "light")
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	b.follow(t, "/functions")
	b.do(t, click(`a[href="/functions/new"]`))
	b.fill(t, "#function-name", "Greeter!")
	b.fill(t, "#function-source", "module.exports.main = () => 'hello one'")
	b.fill(t, "#subscription-source", "store")
	b.fill(t, "#subscription-types", "order.greeted")
	b.press(t, "Review")
	b.shows(t, "main", "nothing is written")
	b.shows(t, "#function-name-hint", "use up to 63 lower case letters")
	require.True(t, b.truth(t, `document.activeElement.id === "function-name"`), "the first field that is wrong has the focus")
	b.fill(t, "#function-name", "greeter")
	eventually(t, "the Subscription has the same name until another is typed", func() bool {
		return b.truth(t, `document.querySelector("#subscription-name").value === "greeter"`)
	})
	b.press(t, "Review")
	b.shows(t, ".review", "This will be written")
	b.shows(t, ".review", "greeter.yaml")
	require.NoFileExists(t, filepath.Join(r.folder, "greeter.yaml"))
	b.press(t, "Apply")
	b.shows(t, "main h1", "greeter")
	require.FileExists(t, filepath.Join(r.folder, "greeter.yaml"))
	answers := func(want string) {
		eventually(t, "it answers "+want, func() bool {
			b.press(t, "Call")
			return b.truth(t, `document.querySelector(".answer")?.innerText.includes("`+want+`") ?? false`)
		})
	}
	answers("hello one")

	b.do(t, clickPath(`//a[text()="Edit"]`))
	b.fill(t, "#function-source", "module.exports.main = () => 'hello two'")
	b.press(t, "Review")
	b.shows(t, ".diff .added", "hello two")
	b.shows(t, ".diff .removed", "hello one")
	b.press(t, "Apply")
	b.shows(t, ".code", "hello two")
	answers("hello two")
	b.clean(t)
}

func TestValuesOfVariablesAreNotInAForm(t *testing.T) {
	r, b := start(t), open(t)
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	b.do(t, chromedp.Navigate(r.Dashboard+"/functions/shop/pricing/edit"))
	b.fill(t, "#function-max", "4")
	b.press(t, "Review")
	b.shows(t, ".diff .added", "4")
	require.NotContains(t, b.text(t, "body"), "this-value-is-never-shown")
	b.press(t, "Apply")
	b.shows(t, "main", "of 4")
	written, err := os.ReadFile(filepath.Join(r.folder, "shop.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(written), "this-value-is-never-shown", "it stays in the file")
	b.clean(t)
}

func TestTheEditorIndentsAndTheKeyboardLeavesIt(t *testing.T) {
	r, b := start(t), open(t)
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	b.do(t, chromedp.Navigate(r.Dashboard+"/functions/new"))
	b.fill(t, "#function-source", "if (a) {")
	b.do(t, chromedp.KeyEvent("\r"), chromedp.KeyEvent("b"), chromedp.KeyEvent("\r"), chromedp.KeyEvent("\t"), chromedp.KeyEvent("c"))
	require.Equal(t, "if (a) {\n  b\n    c", evaluate[string](t, b, `document.querySelector("#function-source").value`))
	b.do(t, chromedp.KeyEvent("\u001b"), chromedp.KeyEvent("\t"))
	require.True(t, b.truth(t, `document.activeElement.id === "function-dependencies"`))
	b.follow(t, "/functions")
	b.shows(t, "main h1", "Functions")
	b.do(t, click(`a[href="/functions/new"]`))
	b.shows(t, "main h1", "New Function")
	require.Contains(t, evaluate[string](t, b, `document.querySelector("#function-source").value`), "if (a)", "what is not saved is not lost")
	b.press(t, "Discard")
	b.shows(t, "main h1", "Functions")
	b.clean(t)
}

func TestAUserPausesASubscriptionAndSavesARequest(t *testing.T) {
	r, b := start(t), open(t)
	b.do(t, chromedp.Navigate(r.Dashboard+"/#"+r.Token))
	b.shows(t, ".canvas", "pricing")
	b.follow(t, "/subscriptions")
	b.do(t, click(`[aria-label="Pause shop/pricing"]`))
	b.shows(t, "#notes", "Paused shop/pricing")
	b.shows(t, "main", "paused")
	b.do(t, click(`[aria-label="Resume shop/pricing"]`))
	b.shows(t, "#notes", "Resumed shop/pricing")

	b.do(t, chromedp.Navigate(r.Dashboard+"/functions/shop/pricing"))
	const markup = `<img src=x onerror=window.attacked=true>`
	b.fill(t, `[aria-label="Path"]`, "/orders?id=7")
	b.press(t, "Save request")
	b.fill(t, "#request-name", markup)
	b.do(t, chromedp.KeyEvent("\r"))
	b.shows(t, `[aria-label="Saved requests"]`, markup)
	b.fill(t, `[aria-label="Path"]`, "/else")
	b.do(t, chromedp.Navigate(r.Dashboard+"/functions/shop/pricing"))
	b.shows(t, `[aria-label="Saved requests"]`, markup)
	b.truth(t, `(() => { const s = document.querySelector('[aria-label="Saved requests"]'); s.selectedIndex = 1; s.dispatchEvent(new Event("change")); return true })()`)
	eventually(t, "the request is there again", func() bool {
		return b.truth(t, `document.querySelector('[aria-label="Path"]').value === "/orders?id=7"`)
	})
	b.do(t, click(`[aria-label^="Delete the saved request"]`))
	eventually(t, "it is deleted", func() bool { return b.truth(t, `document.querySelector('[aria-label="Saved requests"]') === null`) })
	require.False(t, b.truth(t, `window.attacked === true || document.querySelector("img") !== null`))
	b.clean(t)
}
