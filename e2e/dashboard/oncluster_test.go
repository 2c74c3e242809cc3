//go:build e2e

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	shop     = "dashboard-shop"
	stranger = "dashboard-stranger"
)

// run runs a command and returns what it prints.
func run(t *testing.T, input string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), slowTimeout+time.Minute)
	defer cancel()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Stdin, program.Stderr = strings.NewReader(input), os.Stderr
	out, err := program.Output()
	require.NoError(t, err, command)
	return strings.TrimSpace(string(out))
}

// onCluster is the dashboard of the cluster that KUBECONFIG names, reached as its users without an Ingress do.
type onCluster struct{ url string }

var forwards = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+)`)

func reach(t *testing.T) onCluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	forward := exec.CommandContext(ctx, "kubectl", "-n", "rouse-system", "port-forward", "svc/rouse-dashboard", ":80")
	forward.Stderr = os.Stderr
	out, err := forward.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, forward.Start())
	t.Cleanup(func() {
		cancel()
		_ = forward.Wait()
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "kubectl forwards no port")
	found := forwards.FindStringSubmatch(lines.Text())
	require.NotNil(t, found, lines.Text())
	go func() {
		for lines.Scan() { // kubectl blocks when nobody reads
		}
	}()
	return onCluster{url: "http://localhost:" + found[1]}
}

// allDeadLetters redrives or purges all dead letters that are shown.
func allDeadLetters(t *testing.T, b *browser, verb string) {
	t.Helper()
	b.showsAtLast(t, "main", "visit.received")
	b.do(t, click(`#all`))
	b.showsAtLast(t, ".tools", " selected")
	b.press(t, verb)
	b.do(t, clickPath(`//dialog//button[starts-with(normalize-space(), "`+verb+`")]`))
	b.showsAtLast(t, "dialog", "done")
	b.do(t, clickPath(`//dialog//button[text()="Close"]`))
}

// deleted deletes a namespace when the test ends.
func deleted(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() { run(t, "", "kubectl", "delete", "namespace", namespace, "--ignore-not-found") })
}

// user makes a ServiceAccount with a role in its namespace, and returns a token.
func user(t *testing.T, namespace, role string) string {
	t.Helper()
	run(t, "", "kubectl", "-n", namespace, "create", "serviceaccount", role)
	run(t, "", "kubectl", "-n", namespace, "create", "rolebinding", role, "--clusterrole="+role, "--serviceaccount="+namespace+":"+role)
	return run(t, "", "kubectl", "-n", namespace, "create", "token", role)
}

func TestUsersOfAClusterLogInAndSeeAndDoWhatTheyMay(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	deleted(t, shop)
	deleted(t, stranger)
	// A namespace and types of its own, so that other tests may have samples/orders as well.
	own := strings.NewReplacer("orders", shop, "order.received", "visit.received", "order.priced", "visit.priced", "order.invoiced", "visit.invoiced")
	run(t, own.Replace(run(t, "", "kubectl", "kustomize", filepath.Join(root, "samples", "orders"))), "kubectl", "apply", "-f", "-")
	run(t, "", "kubectl", "create", "namespace", stranger)
	run(t, `
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: hidden}
spec: {runtime: nodejs22, source: {inline: {source: "module.exports.main = () => 'hidden'"}}}
`, "kubectl", "-n", stranger, "apply", "-f", "-")
	run(t, "", "kubectl", "-n", shop, "wait", "functions", "--all", "--for=condition=Running", "--timeout=4m")
	run(t, "", "kubectl", "-n", shop, "wait", "subscriptions", "--all", "--for=jsonpath={.status.ready}=true", "--timeout=2m")
	editor, viewer := user(t, shop, "edit"), user(t, stranger, "view")
	at := reach(t)

	t.Run("a wrong token is refused", func(t *testing.T) {
		b := open(t)
		b.do(t, chromedp.Navigate(at.url))
		b.refuse(t, "no.such.token", "this token is not valid in the cluster")
	})
	t.Run("a tenant sees its own namespace alone", func(t *testing.T) {
		b := open(t)
		b.size(t, 1440, 900, "light")
		b.do(t, chromedp.Navigate(at.url))
		b.logIn(t, viewer)
		b.showsAtLast(t, ".canvas", "hidden")
		b.follow(t, "/functions")
		b.showsAtLast(t, "main", "hidden")
		require.NotContains(t, b.text(t, "body"), "pricing")
		b.do(t, chromedp.Navigate(at.url+"/functions/"+shop+"/pricing"))
		b.showsAtLast(t, "main", "there is no Function")
		b.press(t, "Log out")
		eventually(t, "the login is shown again", func() bool { return b.truth(t, `document.querySelector("input[name=token]") !== null`) })
	})
	t.Run("a user of the shop sees its chain and changes it", func(t *testing.T) {
		b := open(t)
		b.size(t, 1440, 900, "dark")
		b.do(t, chromedp.Navigate(at.url))
		b.logIn(t, editor)
		b.showsAtLast(t, ".canvas", "pricing")
		rouse := filepath.Join(root, "bin", "rouse")
		publish := func(id, product string) {
			data := fmt.Sprintf(`{"id": %q, "lines": [{"product": %q, "quantity": 2}]}`, id, product)
			contextName := run(t, "", "kubectl", "config", "current-context")
			run(t, "", rouse, "publish", "--context", contextName, "-n", shop, "--type", "visit.received", "--source", "shop", "--id", id+".received", "--data", data)
		}
		publish("seen", "coffee")
		within(t, slowTimeout, "the Function at the end of the chain glows", func() bool {
			return b.truth(t, `document.querySelector('.node.function.awake[href="/functions/`+shop+`/recorder"]') !== null`)
		})
		picture(t, b, "cluster-overview")
		b.follow(t, "/events")
		b.showsAtLast(t, "main", "visit.invoiced")
		b.do(t, clickPath(`//a[text()="visit.priced"]`))
		b.showsAtLast(t, ".waterfall", "visit.invoiced")
		for path, title := range map[string]string{
			"/functions": "Functions", "/subscriptions": "Subscriptions", "/timers": "Schedules and Doors", "/health": "Health",
		} {
			b.follow(t, path)
			b.showsAtLast(t, "main h1", title)
		}
		b.do(t, chromedp.Navigate(at.url+"/functions/"+shop+"/recorder"))
		b.showsAtLast(t, ".log", `"order":"seen"`)

		publish("unicorn", "unicorn")
		b.follow(t, "/deadletters")
		b.showsAtLast(t, "main", "visit.received")
		b.follow(t, "/health")
		b.showsAtLast(t, "main", "RouseDeadLetters")
		b.follow(t, "/deadletters")
		allDeadLetters(t, b, "Redrive")
		require.Contains(t, run(t, "", "kubectl", "-n", shop, "get", "events", "--field-selector=reason=DeadLettersRedriven", "-o", "jsonpath={.items[*].message}"), "edit")

		create(t, b, at)
		b.follow(t, "/deadletters")
		allDeadLetters(t, b, "Purge")
		b.throwsNothing(t)
	})
}

// create makes a Function in the form, calls it, edits it and rolls it back.
func create(t *testing.T, b *browser, at onCluster) {
	t.Helper()
	b.do(t, chromedp.Navigate(at.url+"/functions/new"))
	b.fill(t, "#function-name", "greeter")
	b.fill(t, "#function-source", "module.exports.main = () => 'hello one'")
	b.do(t, clickPath(`//label[contains(., "Events wake it")]`))
	b.showsAtLast(t, "main", "Without a Subscription")
	b.press(t, "Review")
	b.showsAtLast(t, ".review", "kind: Function")
	b.press(t, "Apply")
	b.showsAtLast(t, "main h1", "greeter")
	answers := func(want string) {
		within(t, slowTimeout, "it answers "+want, func() bool {
			b.press(t, "Call")
			return strings.Contains(b.text(t, ".answer"), want)
		})
	}
	answers("hello one")
	run(t, "", "kubectl", "-n", shop, "wait", "function", "greeter", "--for=condition=Running", "--timeout=2m")
	first := run(t, "", "kubectl", "-n", shop, "get", "function", "greeter", "-o", "jsonpath={.status.version}")
	b.do(t, clickPath(`//a[text()="Edit"]`))
	b.fill(t, "#function-source", "module.exports.main = () => 'hello two'")
	b.press(t, "Review")
	b.showsAtLast(t, ".diff .added", "hello two")
	b.press(t, "Apply")
	b.showsAtLast(t, ".code", "hello two")
	answers("hello two")
	back := `[aria-label="Roll back to ` + first + `"]`
	within(t, slowTimeout, "the first version is offered", func() bool { return b.truth(t, "document.querySelector('"+back+"') !== null") })
	b.do(t, click(back))
	b.do(t, clickPath(`//dialog//button[text()="Roll back"]`))
	within(t, slowTimeout, "the version serves", func() bool { return b.truth(t, `document.querySelector("dialog[open]") === null`) })
	answers("hello one")
	picture(t, b, "cluster-function")
}
