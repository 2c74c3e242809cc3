package cli

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const packedFunction = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: pricing}
spec:
  annotations: {rouse.run/files: pricing-files}
  runtime: nodejs22
  source: {inline: {source: "// handler.ts"}}
`

// source returns the inline source of the Function pricing, and its annotations.
func (c *testCluster) source(t *testing.T) (source string, annotations map[string]string) {
	t.Helper()
	fn := c.get(t, pricingYAML, "pricing")
	require.NotNil(t, fn)
	source, _, _ = unstructured.NestedString(fn.Object, "spec", "source", "inline", "source")
	annotations, _, _ = unstructured.NestedStringMap(fn.Object, "spec", "annotations")
	return source, annotations
}

func TestSyncPacksTheFilesOfAFunctionSoThatNothingIsBuilt(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, readyStatus)
	folder := writeFolder(t, map[string]string{
		"function.yaml": packedFunction, "handler.ts": "import { rate } from './rates'\nexport const main = (): number => rate\n",
		"rates.ts": "export const rate: number = 7\n", "orders.yaml": c.subscriptionYAML(),
	})
	got := c.run(t, "sync", folder)
	require.Equal(t, 0, got.code, got.err)
	require.Regexp(t, `(?m)^function/pricing answers with what was saved after \S+$`, got.out)
	source, annotations := c.source(t)
	require.Contains(t, source, "rate = 7")
	require.Empty(t, annotations)
	require.Nil(t, c.get(t, configYAML, "pricing-files"), "no pod and no build reads it")

	require.Equal(t, 0, c.run(t, "deploy", folder).code)
	source, annotations = c.source(t)
	require.Equal(t, "// handler.ts", source)
	require.Equal(t, "pricing-files", annotations["rouse.run/files"])
	require.NotNil(t, c.get(t, configYAML, "pricing-files"))
}

func TestSyncSaysWhatTakesABuildNevertheless(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, readyStatus)
	folder := writeFolder(t, map[string]string{
		"function.yaml": packedFunction, "handler.js": "exports.main = () => require('node:fs').readFileSync('prices.csv', 'utf8')\n", "prices.csv": "tea,280\n",
	})
	got := c.run(t, "sync", folder)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "function/pricing: a change of it takes a build: prices.csv may be read when it runs; leave it out in .rouseignore if it is not\n")
	_, annotations := c.source(t)
	require.Equal(t, "pricing-files", annotations["rouse.run/files"])
	require.NotNil(t, c.get(t, configYAML, "pricing-files"))
}

func TestSyncAppliesEachSaveAndSaysWhenItAnswers(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.control(t, func(object *unstructured.Unstructured) map[string]any {
		source, _, _ := unstructured.NestedString(object.Object, "spec", "source", "inline", "source")
		if strings.Contains(source, "throw") {
			return stalledStatus(object, "the handler does not load: Error: no")
		}
		return readyStatus(object)
	})
	folder := writeFolder(t, map[string]string{
		"function.yaml": packedFunction, "handler.ts": "export const main = (): number => 1\n", "prices.yaml": configYAML,
	})
	ctx, interrupt := context.WithCancel(t.Context())
	out, printed := io.Pipe()
	problems, noted := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"sync", "--watch", folder, "--kubeconfig", c.kubeconfig}, Streams{In: strings.NewReader(""), Out: printed, Err: noted, ProgressAfter: unhurried})
		_, _ = printed.Close(), noted.Close()
	}()
	lines, notes := linesOf(out), linesOf(problems)
	for _, want := range []string{"configmap/prices is applied", "function/pricing answers with what was saved"} {
		require.Contains(t, next(t, lines), want)
	}

	writeFile(t, folder, "handler.ts", "export const main = (): number => 2\n")
	require.Contains(t, next(t, lines), "function/pricing answers with what was saved after ")
	source, _ := c.source(t)
	require.Contains(t, source, "=> 2")

	writeFile(t, folder, "handler.ts", "export const main = ;\n")
	awaitLine(t, notes, `handler.ts:1:21: Unexpected ";"`)
	writeFile(t, folder, "handler.ts", "throw new Error('no')\nexport const main = () => 3\n")
	awaitLine(t, notes, "the handler does not load: Error: no")
	writeFile(t, folder, "handler.ts", "export const main = (): number => 3\n")
	require.Contains(t, next(t, lines), "function/pricing answers", "a version that failed hinders no later one")

	interrupt()
	require.Equal(t, 0, <-ended)
}

// linesOf passes on what is written, so that the writer never waits.
func linesOf(from io.Reader) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(from); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// next returns the next line.
func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(testTimeout):
		require.FailNow(t, "there is no further line")
		return ""
	}
}

// awaitLine waits for a line with a text.
func awaitLine(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	for !strings.Contains(next(t, lines), text) {
		continue
	}
}
