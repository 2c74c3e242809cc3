//go:build e2e

package features

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// filesOf returns a Function in TypeScript whose files a ConfigMap has, and the ConfigMap.
func filesOf(text string) string {
	return fmt.Sprintf(`apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: files}
spec:
  annotations: {rouse.run/files: files-files}
  runtime: nodejs22
  source: {inline: {source: "// the files"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files-files}
data:
  handler.ts: |
    import { Text } from './lib/text'
    export const main = (): string => Text.Answer
  lib..text.ts: |
    %s
`, text)
}

func TestFilesOfAConfigMapAreBuiltAndABrokenOneDoesNoHarm(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	apply := func(text string) {
		t.Helper()
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, filesOf(text)))
	}
	apply("export enum Text { Answer = 'one' }")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "files", "one", built))

	apply("export enum Text { Answer = 'two' }")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "files", "two", built))

	apply("export enum Text { Answer = }")
	requireFailure(t, cluster, namespace, "files", "BuildReady", "lib/text.ts:1:")
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "files", "two", 10*time.Second), "the previous version does not serve")
}
