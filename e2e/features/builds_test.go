//go:build e2e

package features

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/e2e/framework"
)

// built is how long a build and the start of its pods may take while others are built on the same two cores.
const built = 3 * time.Minute

const lodash = `{"dependencies":{"lodash":"4.17.21"}}`

// What each answers comes out of its package; the compiled ones would not load without their binary.
var packaged = map[string]struct{ runtime, dependencies, source, answer string }{
	"lodash": {
		runtime: "nodejs22", dependencies: lodash, answer: "lodash 4.17.21",
		source: `const _ = require('lodash'); module.exports.main = () => 'lodash ' + _.VERSION`,
	},
	"bcrypt": {
		runtime: "nodejs26", dependencies: `{"dependencies":{"bcrypt":"6.0.0"}}`, answer: "bcrypt true",
		source: `const bcrypt = require('bcrypt')
module.exports.main = (req, res) => res.send('bcrypt ' + bcrypt.compareSync('rouse', bcrypt.hashSync('rouse', 4)))`,
	},
	"requests": {
		runtime: "python312", dependencies: "requests==2.32.5\n", answer: "requests 2.32.5",
		source: "import requests\ndef main(event, context):\n    return 'requests ' + requests.__version__\n",
	},
	"markupsafe": {
		runtime: "python314", dependencies: "markupsafe==3.0.3\n", answer: "markupsafe .so",
		source: "from markupsafe import _speedups\ndef main():\n    return 'markupsafe ' + _speedups.__file__[-3:]\n",
	},
}

func TestFunctionsAnswerWithTheirPackages(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for name, tc := range packaged {
		function := framework.Function{Name: name, Runtime: tc.runtime, Source: tc.source, Dependencies: tc.dependencies}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for name, tc := range packaged {
		require.NoError(t, awaitBuilt(t.Context(), cluster, namespace, name))
		require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, name, tc.answer, 30*time.Second))
	}
}

func TestAFunctionIsBuiltOnceForTheSameDependencies(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	jobs, err := cluster.RecordJobs(t.Context())
	require.NoError(t, err)
	version := func(n int) framework.Function {
		source := fmt.Sprintf("const _ = require('lodash'); module.exports.main = () => '%d with ' + _.VERSION", n)
		return framework.Function{Name: "again", Runtime: "nodejs22", Source: source, Dependencies: lodash}
	}
	show := func(n int) {
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, version(n).YAML()))
		require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "again", fmt.Sprintf("%d with 4.17.21", n), built))
	}
	show(1)
	require.Equal(t, 1, jobs.Of(namespace, "again"))
	first := imageOf(t, cluster, namespace, "again")

	show(2)
	require.Equal(t, 1, jobs.Of(namespace, "again"), "another source was built, although the dependencies are the same")

	function, err := cluster.Function(t.Context(), namespace, "again")
	require.NoError(t, err)
	require.NoError(t, cluster.Delete(t.Context(), function))
	require.NoError(t, cluster.AwaitNoPods(t.Context(), namespace, "again", time.Minute))
	show(3)
	require.Equal(t, 2, jobs.Of(namespace, "again"), "what an earlier Function of the same name left was believed")
	require.Equal(t, first, imageOf(t, cluster, namespace, "again"), "the same image is built again")
}

func TestBuildsAboveTheLimitWaitInTheQueue(t *testing.T) {
	t.Parallel()
	const functions, slots = 7, 5
	cluster, namespace := connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	jobs, err := cluster.RecordJobs(ctx)
	require.NoError(t, err)
	var manifest strings.Builder
	for n := range functions {
		function := framework.Function{
			Name: fmt.Sprintf("queued-%d", n), Runtime: "nodejs22", Source: "module.exports.main = () => require('is-number')(7)",
			Dependencies: `{"dependencies":{"is-number":"7.0.0"}}`,
		}
		manifest.WriteString(function.YAML() + "---\n")
	}
	positions, err := cluster.RecordReasons(ctx, namespace, "BuildReady", "BuildQueued")
	require.NoError(t, err)
	require.NoError(t, cluster.ApplyYAML(ctx, namespace, manifest.String()))
	for n := range functions {
		require.NoError(t, awaitBuilt(ctx, cluster, namespace, fmt.Sprintf("queued-%d", n)))
	}
	require.LessOrEqual(t, jobs.Highest(), slots)
	said := positions.Messages()
	require.NotEmpty(t, said, "no Function said that it waits, although there are %d for %d slots", functions, slots)
	require.Regexp(t, `\b[1-9]\d*\b`, said[0], "the message has no position")
	t.Logf("%d builds at once at most; %s", jobs.Highest(), strings.Join(said, "; "))
}

// awaitBuilt waits until a Function runs with the image that its spec asks for.
func awaitBuilt(ctx context.Context, cluster *framework.Cluster, namespace, name string) error {
	if err := cluster.AwaitCondition(ctx, namespace, framework.FunctionGVK, name, "BuildReady", "True", built); err != nil {
		return err
	}
	return cluster.AwaitCondition(ctx, namespace, framework.FunctionGVK, name, "Running", "True", time.Minute)
}

// imageOf is the image that a Function was built as.
func imageOf(t *testing.T, cluster *framework.Cluster, namespace, name string) string {
	t.Helper()
	function, err := cluster.Function(t.Context(), namespace, name)
	require.NoError(t, err)
	image, _, err := unstructured.NestedString(function.Object, "status", "build", "image")
	require.NoError(t, err)
	require.NotEmpty(t, image)
	return image
}
