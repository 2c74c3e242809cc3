package dashboard

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// slowTimeout bounds what waits for pods and builds.
const slowTimeout = 4 * time.Minute

// browser is a tab of Chromium.
type browser struct {
	context.Context //nolint:containedctx // chromedp knows a tab by its context

	mu       sync.Mutex
	problems []string // errors of scripts and of the policy
}

// open starts Chromium until the test ends.
func open(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && program == "" {
			program = found
		}
	}
	require.NotEmpty(t, program, "Chromium is missing: make test-dashboard installs it")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to have one as root
	}
	allocated, release := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...) // a test that failed shows the page
	t.Cleanup(release)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	b := &browser{Context: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 4000)`))
			t.Logf("the page:\n%s", text)
		}
	})
	console := chromedp.Console(ctx) // starts the browser, which ends with ctx
	go func() {
		for message, err := range console {
			if err != nil {
				return
			}
			if message.Type == chromedp.ConsoleException || message.Type == chromedp.ConsoleError {
				b.note(message.String() + " " + message.URL)
			}
		}
	}()
	return b
}

func (b *browser) note(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

// do runs actions, each of which waits for what it needs.
func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b, waitTimeout)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, actions...))
}

// size sets the window and the scheme of colours.
func (b *browser) size(t *testing.T, width, height int64, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	b.do(t, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(1.5)),
		chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
			return err
		}))
}

// settled waits until the page is drawn and its transitions have ended.
const settled = `(async () => {
	for (let i = 0; i < 4; i++) await new Promise(requestAnimationFrame);
	await Promise.all(document.getAnimations().filter((a) => a.effect.getTiming().iterations !== Infinity).map((a) => a.finished.catch(() => 0)));
	return true;
})()`

// text returns what is shown in an element, as people read it.
func (b *browser) text(t *testing.T, selector string) string {
	t.Helper()
	return evaluate[string](t, b, `document.querySelector(`+quoted(selector)+`)?.innerText ?? ""`)
}

// truth evaluates a condition of the page.
func (b *browser) truth(t *testing.T, script string) bool {
	t.Helper()
	return evaluate[bool](t, b, script)
}

func evaluate[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b, waitTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(t, err, script)
	return value
}

// shows waits until an element shows a text.
func (b *browser) shows(t *testing.T, selector, text string) {
	t.Helper()
	eventually(t, selector+" shows "+text, func() bool {
		b.clean(t)
		return strings.Contains(b.text(t, selector), text)
	})
}

// showsAtLast is shows for what takes a pod or a build.
func (b *browser) showsAtLast(t *testing.T, selector, text string) {
	t.Helper()
	within(t, slowTimeout, selector+" shows "+text, func() bool { return strings.Contains(b.text(t, selector), text) })
}

// throwsNothing fails the test for errors of scripts. Answers of bridges that other tests stop are none.
func (b *browser) throwsNothing(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		require.Contains(t, problem, "Failed to load resource")
	}
}

// fill types a text into a field, in place of what it has.
func (b *browser) fill(t *testing.T, selector, text string) {
	t.Helper()
	eventually(t, "there is "+selector, func() bool { return b.truth(t, `document.querySelector(`+quoted(selector)+`) !== null`) })
	b.truth(t, `(() => { const field = document.querySelector(`+quoted(selector)+`); field.focus(); field.select(); return true })()`)
	b.do(t, chromedp.KeyEvent(text))
}

// press clicks the button with a text.
func (b *browser) press(t *testing.T, text string) {
	t.Helper()
	b.do(t, clickPath(`//button[normalize-space()="`+text+`"]`))
}

// follow goes to a view by a link of the page, as a user does.
func (b *browser) follow(t *testing.T, path string) {
	t.Helper()
	b.do(t, click(`nav a[href="`+path+`"]`))
}

// quiet forgets what scripts and requests have reported, where that was to be expected: Chromium notes each answer that is an error.
func (b *browser) quiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = nil
}

// clean fails the test if scripts threw errors, or did what the policy forbids.
func (b *browser) clean(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.problems)
}

// click clicks the first element that a CSS selector finds, once it is visible.
func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// clickPath clicks the first element that an XPath finds.
func clickPath(path string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.Search(path))
}

func quoted(text string) string { return "`" + text + "`" }

// picture writes what is shown where ROUSE_SCREENSHOTS asks for it, to look at.
func picture(t *testing.T, b *browser, name string) {
	t.Helper()
	if folder := os.Getenv("ROUSE_SCREENSHOTS"); folder != "" {
		text, err := chromedp.Run(b, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".png"), text, 0o600))
	}
}
