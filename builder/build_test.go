package builder

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

func TestProgramsOfTheImageChooseTheirOwnFIPSMode(t *testing.T) {
	t.Parallel()
	given := []string{"PATH=/bin", "GODEBUG=fips140=only,tlsmlkem=0", "GODEBUGGER=x"}
	require.Equal(t, []string{"PATH=/bin", "GODEBUGGER=x"}, environment(given, fips.Only))
	require.Equal(t, []string{"PATH=/bin", "GODEBUGGER=x"}, environment(given, fips.On))
	require.Equal(t, given, environment(given, fips.Off), "what an image says is not ours to take away")
	require.Len(t, given, 3)
}

// gitFunc is a repository.
type gitFunc func(ctx context.Context, source buildplan.Git, into string) error

func (f gitFunc) Fetch(ctx context.Context, source buildplan.Git, _ []byte, into string) error {
	return f(ctx, source, into)
}

func repository(t *testing.T, files map[string]string) Git {
	t.Helper()
	return gitFunc(func(_ context.Context, _ buildplan.Git, into string) error {
		for file, content := range files {
			write(t, filepath.Join(into, file), content)
		}
		return nil
	})
}

const lockFile = `{"name": "fn", "lockfileVersion": 3, "requires": true, "packages": {
	"": {"name": "fn", "dependencies": {"lodash": "^4.0.0"}, "devDependencies": {"left-pad": "1.3.0"}},
	"node_modules/lodash": {"version": "4.17.20", "license": "MIT"},
	"node_modules/left-pad": {"version": "1.3.0", "dev": true}}}`

func TestPrepareFillsTheDirectoryThatTheRuntimeReads(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan buildplan.Plan
		git  map[string]string
		want []string
		not  []string
	}{
		"inline source": {
			plan: buildplan.Plan{Runtime: "nodejs22", Source: commonJS}, want: []string{"handler.js"}, not: []string{"package.json", "node_modules"},
		},
		"inline source that needs nothing": {
			plan: buildplan.Plan{Runtime: "nodejs22", Source: moduleJS, Dependencies: packageESM},
			want: []string{"handler.js", "package.json"}, not: []string{"node_modules"},
		},
		"files of a folder": {
			plan: buildplan.Plan{Runtime: "nodejs22", Source: "ignored", Dependencies: packageESM, Files: map[string][]byte{
				"handler.mjs": []byte(moduleJS), "lib/deep/text.js": []byte("x"),
			}},
			want: []string{"handler.mjs", "lib/deep/text.js", "package.json"}, not: []string{"handler.js"},
		},
		"files of a folder beside an inline handler": {
			plan: buildplan.Plan{Runtime: "nodejs22", Source: commonJS, Files: map[string][]byte{"lib/text.js": []byte("x")}},
			want: []string{"handler.js", "lib/text.js"},
		},
		"a handler in TypeScript": {
			plan: buildplan.Plan{Runtime: "nodejs22", Source: "ignored", Files: map[string][]byte{
				"handler.ts": []byte("import { n } from './n';\nexport const main = (): number => n;"), "n.ts": []byte("enum N { One = 1 }\nexport const n: number = N.One;"),
			}},
			want: []string{"handler.cjs", "handler.cjs.map"}, not: []string{"handler.js"},
		},
		"inline dependencies": {
			plan: buildplan.Plan{Runtime: "nodejs22", Dependencies: `{"dependencies": {"lodash": "4.17.21"}}`},
			want: []string{"package.json", "node_modules/lodash/package.json"}, not: []string{"handler.js", "package-lock.json"},
		},
		"a repository with a lock file": {
			plan: buildplan.Plan{Runtime: "nodejs22", Git: &buildplan.Git{}},
			git: map[string]string{"handler.mjs": moduleJS, "package-lock.json": lockFile, "package.json": `{"name": "fn",
				"dependencies": {"lodash": "^4.0.0"}, "devDependencies": {"left-pad": "1.3.0"}}`},
			want: []string{"handler.mjs", "node_modules/lodash/package.json"}, not: []string{"node_modules/left-pad"},
		},
		"a Python repository with several files": {
			plan: buildplan.Plan{Runtime: "python312", Git: &buildplan.Git{}},
			git: map[string]string{
				"handler.py": python, "typing.py": "raise RuntimeError\n", "requirements.txt": "-r more.txt\n", "more.txt": "idna==3.10\n",
			},
			want: []string{"handler.py", "typing.py", ".local/idna/core.py", "__pycache__", ".local/idna/__pycache__"},
		},
		"a Python source with blank dependencies": {
			plan: buildplan.Plan{Runtime: "python314", Source: python, Dependencies: " \n"}, want: []string{"handler.py"}, not: []string{"requirements.txt", ".local"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, tc.plan)
			j.git = repository(t, tc.git)
			for range 2 {
				write(t, filepath.Join(j.o.Function, "left/over"), "x")
				result := j.prepared(t)
				require.Empty(t, result.Reason, "%s\n%s", result.Message, j.output)
				for _, file := range tc.want {
					_, err := os.Stat(filepath.Join(j.o.Function, file))
					require.NoError(t, err)
				}
				for _, file := range append(tc.not, "left") {
					require.NoFileExists(t, filepath.Join(j.o.Function, file))
					require.NoDirExists(t, filepath.Join(j.o.Function, file))
				}
			}
		})
	}
}

func TestALockFileDecidesOnTheVersion(t *testing.T) {
	t.Parallel()
	j := newJob(t, buildplan.Plan{Runtime: "nodejs22", Git: &buildplan.Git{}})
	j.git = repository(t, map[string]string{"handler.js": commonJS, "package-lock.json": lockFile, "package.json": `{"name": "fn",
		"dependencies": {"lodash": "^4.0.0"}, "devDependencies": {"left-pad": "1.3.0"}}`})
	result := j.prepared(t)
	require.Empty(t, result.Reason, "%s\n%s", result.Message, j.output)
	text, err := os.ReadFile(filepath.Join(j.o.Function, "node_modules/lodash/package.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"version": "4.17.20"`)
}

func TestDirectoriesMayBeRelative(t *testing.T) {
	t.Parallel()
	j := newJob(t, buildplan.Plan{Runtime: "python312", Source: python, Dependencies: "idna==3.10"})
	here, err := os.Getwd()
	require.NoError(t, err)
	absolute := j.o.Function
	for _, dir := range []*string{&j.o.Work, &j.o.Cache, &j.o.Packages, &j.o.Function, &j.o.Input} {
		*dir, err = filepath.Rel(here, *dir)
		require.NoError(t, err)
	}
	result := j.prepared(t)
	require.Empty(t, result.Reason, result.Message)
	for _, pattern := range []string{"__pycache__/handler.*.pyc", ".local/idna/__pycache__/core.*.pyc"} {
		found, err := filepath.Glob(filepath.Join(absolute, pattern))
		require.NoError(t, err)
		require.Len(t, found, 1, pattern)
	}
}

func TestAFailureNamesItsCause(t *testing.T) {
	t.Parallel()
	missing := `{"dependencies": {"rouse-there-is-no-such-package": "1.0.0"}}`
	for name, tc := range map[string]struct {
		plan    buildplan.Plan
		options []registrytest.Option
		git     error
		prepare func(*testing.T, *job, *registrytest.Registry, *buildplan.Plan)
		want    language.Reason
		says    string
		log     string
	}{
		"an unknown package":                  {plan: buildplan.Plan{Dependencies: missing}, want: language.PackageNotFound, says: "rouse-there-is-no-such-package", log: "E404"},
		"dependencies that cannot be parsed":  {plan: buildplan.Plan{Dependencies: "lodash"}, want: language.InvalidDependencies, says: "spec.source.inline.dependencies", log: "EJSONPARSE"},
		"an unknown package of Python":        {plan: buildplan.Plan{Runtime: "python312", Dependencies: "rouse-there-is-no-such-package==1.0"}, want: language.PackageNotFound, says: "rouse-there-is-no-such-package", log: "No matching distribution"},
		"requirements that cannot be parsed":  {plan: buildplan.Plan{Runtime: "python312", Dependencies: "idna=3"}, want: language.InvalidDependencies, says: "line 1", log: "Invalid requirement"},
		"a source that does not compile":      {plan: buildplan.Plan{Source: brokenJS}, want: language.SourceInvalid, says: "handler.js:3"},
		"a repository that refuses":           {plan: buildplan.Plan{Git: &buildplan.Git{}}, git: &git.Error{Kind: git.Authentication, Message: "wrong password"}, want: language.SourceUnavailable, says: "wrong password"},
		"a repository that does not answer":   {plan: buildplan.Plan{Git: &buildplan.Git{}}, git: &git.Error{Kind: git.Unreachable, Message: "no answer"}, want: language.SourceUnreachable, says: "no answer"},
		"a layer that is too large":           {plan: buildplan.Plan{Source: commonJS, MaxSize: 10}, want: language.ImageTooLarge, says: "handler.js 0.0 MiB"},
		"a base that does not exist":          {plan: buildplan.Plan{Source: commonJS, Base: "nothing:1"}, want: language.BaseUnavailable, says: "nothing:1"},
		"a base whose name is none":           {plan: buildplan.Plan{Source: commonJS, Base: "No Name"}, want: language.BaseUnavailable, says: "correct its name"},
		"a registry that wants a password":    {plan: buildplan.Plan{Source: commonJS}, options: []registrytest.Option{registrytest.WithUser("a", "b")}, want: language.RegistryForbidden, says: "credentials"},
		"a registry that only lets others in": {plan: buildplan.Plan{Source: commonJS}, prepare: answering(http.StatusForbidden), want: language.RegistryForbidden, says: "credentials"},
		"a registry that is broken":           {plan: buildplan.Plan{Source: commonJS}, prepare: answering(http.StatusNotImplemented), want: language.RegistryUnavailable, says: "tried again"},
		"a registry that wants repositories to exist": {
			plan: buildplan.Plan{Source: commonJS}, prepare: answering(http.StatusNotFound), want: language.RegistryForbidden, says: "does the repository shop-price exist",
		},
		"a registry that collects garbage too early": {
			plan: buildplan.Plan{Source: commonJS}, prepare: withoutBlobs, want: language.RegistryUnavailable, says: "removed layers while the image was pushed",
		},
		"a proxy that limits bodies": {plan: buildplan.Plan{Source: commonJS}, prepare: answering(http.StatusRequestEntityTooLarge), want: language.ImageTooLarge, says: "raise its limit"},
		"a registry that is not there": {
			plan: buildplan.Plan{Source: commonJS}, want: language.RegistryUnavailable, says: "connection refused",
			prepare: func(t *testing.T, _ *job, _ *registrytest.Registry, plan *buildplan.Plan) {
				t.Helper()
				address := loopback.Address(t)
				plan.Base, plan.Target = address+"/runtime:1", address+"/shop-price:1"
			},
		},
		"a registry whose certificate is not trusted": {
			plan: buildplan.Plan{Source: commonJS}, options: []registrytest.Option{registrytest.WithTLS()}, want: language.RegistryUnavailable, says: "caBundle",
		},
		"a full registry": {
			plan: buildplan.Plan{Dependencies: `{"dependencies": {"lodash": "4.17.21"}}`}, options: []registrytest.Option{registrytest.WithSpace(420_000)},
			want: language.RegistryFull, says: "larger volume",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.Start(t, tc.options...)
			plan := tc.plan
			plan.Function, plan.Insecure, plan.Target = "shop/price", server.CA == nil, server.Host+"/shop-price:1"
			if plan.Runtime == "" {
				plan.Runtime = "nodejs22"
			}
			if plan.Base == "nothing:1" {
				plan.Base = server.Host + "/nothing:1"
			}
			if plan.Base == "" {
				plan.Base = server.Host + "/runtime:1"
				if !strings.Contains(name, "password") && server.CA == nil {
					put(t, server, "runtime:1", runtimeImage(t, types.OCIManifestSchema1))
				}
			}
			j := newJob(t, plan)
			if tc.prepare != nil {
				tc.prepare(t, j, server, &plan)
				j = newJob(t, plan)
			}
			j.git = gitFunc(func(context.Context, buildplan.Git, string) error { return tc.git })
			result := tried(func() buildplan.Result { return j.run(t.Context()) })
			require.Equal(t, tc.want, result.Reason, result.Message)
			require.Contains(t, result.Message, tc.says)
			require.Contains(t, result.Log, tc.log)
			require.Empty(t, result.Digest)
		})
	}
}

// answering makes a registry answer every upload so.
func answering(status int) func(*testing.T, *job, *registrytest.Registry, *buildplan.Plan) {
	return func(_ *testing.T, _ *job, server *registrytest.Registry, _ *buildplan.Plan) {
		server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
			if request.Method != http.MethodPost {
				return false
			}
			w.WriteHeader(status)
			return true
		})
	}
}

// withoutBlobs makes a registry refuse the image, as when its layers are gone.
func withoutBlobs(_ *testing.T, _ *job, server *registrytest.Registry, plan *buildplan.Plan) {
	_, name, _ := strings.Cut(plan.Target, "/")
	image, _, _ := strings.Cut(name, ":")
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodPut || !strings.HasPrefix(request.URL.Path, "/v2/"+image+"/manifests/") {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN", "message": "blob unknown to registry"}]}`))
		return true
	})
}

func TestABuildThatIsStoppedEndsWithWhatItStarted(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	gone := make(chan struct{}, 10)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		asked <- struct{}{}
		<-request.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(silent.Close)
	for name, tc := range map[string]struct {
		runtime, dependencies, setup, content string
	}{
		"npm": {"nodejs22", `{"dependencies": {"x": "1"}}`, ".npmrc", "registry=" + silent.URL + "/\n"},
		"pip": {"python312", "x", "pip.conf", "[global]\nindex-url = " + silent.URL + "/\n"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, buildplan.Plan{Runtime: tc.runtime, Dependencies: tc.dependencies})
			j.o.Cache = ""
			write(t, filepath.Join(j.o.Packages, tc.setup), tc.content)
			ctx, stop := context.WithCancel(t.Context())
			var stopped time.Time
			go func() {
				<-asked
				stopped = time.Now()
				stop()
			}()
			result := j.builder().Prepare(ctx)
			require.Equal(t, language.Interrupted, result.Reason)
			require.Empty(t, result.Log)
			<-gone // the connection of the child that was killed, which would wait longer for an answer
			require.Less(t, time.Since(stopped), time.Minute)
		})
	}
}

func TestABaseWithADigestIsUsedWhileItsOwnRegistryIsAway(t *testing.T) {
	t.Parallel()
	upstream := registrytest.Start(t, registrytest.WithTLS())
	server := registrytest.Start(t)
	first := runtimeImage(t, types.OCIManifestSchema1)
	base := put(t, upstream, "rouse-run/runtime:1", first)
	run := func(source, base string) buildplan.Result {
		j := newJob(t, buildplan.Plan{
			Runtime: "nodejs22", Base: base, Source: source, Insecure: true, Target: server.Host + "/team/shop_price:" + source,
		})
		write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(upstream.CA))
		return j.run(t.Context())
	}
	built := func(source, base string) []string {
		result := run(source, base)
		require.Empty(t, result.Reason, result.Message)
		return layersOf(t, server, server.Host+"/team/shop_price@"+result.Digest)
	}
	require.Equal(t, diffIDs(t, first), built("1", base))

	second := runtimeImage(t, types.OCIManifestSchema1)
	put(t, upstream, "rouse-run/runtime:1", second)
	require.Equal(t, diffIDs(t, second), built("2", base), "a tag that has moved")

	upstream.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusNotImplemented)
		return true
	})
	exact := strings.TrimSuffix(base, ":1") + "@" + digestOf(t, first)
	require.Equal(t, diffIDs(t, first), built("3", exact))
	require.Equal(t, language.RegistryUnavailable, run("4", base).Reason, "what the tag means now is unknown")

	repositories, err := remote.Catalog(t.Context(), registryOf(t, server.Host), reach(t, server)...)
	require.NoError(t, err)
	require.Equal(t, []string{"team/rouse-base/" + strings.ReplaceAll(upstream.Host, ":", "_") + "/rouse-run/runtime", "team/shop_price"}, repositories)
}

func TestARegistryThatTakesNoCopyOfTheBaseGetsItsLayersInTheImage(t *testing.T) {
	t.Parallel()
	upstream := registrytest.Start(t, registrytest.WithTLS())
	server := registrytest.Start(t)
	server.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPost && strings.Contains(request.URL.Path, "/rouse-base/") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	image := runtimeImage(t, types.DockerManifestSchema2)
	j := newJob(t, buildplan.Plan{
		Runtime: "nodejs22", Base: put(t, upstream, "runtime:1", image), Source: commonJS, Target: server.Host + "/shop-price:1", Insecure: true,
	})
	write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(upstream.CA))
	result := j.build(t)
	require.Equal(t, diffIDs(t, image), layersOf(t, server, server.Host+"/shop-price@"+result.Digest))
}

func TestTheBuilderNeedsAPlan(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]string{"none": "", "one that cannot be read": "{"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, buildplan.Plan{})
			require.NoError(t, os.WriteFile(filepath.Join(j.o.Input, buildplan.PlanFile), []byte(plan), 0o600))
			require.Contains(t, j.run(t.Context()).Message, "plan")
		})
	}
}

func TestOptionsNameTheFlagThatIsMissing(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	require.NoError(t, flags.Validate(&o))
	o.Work = ""
	require.EqualError(t, flags.Validate(&o), "--work-dir must not be empty")
}

const (
	commonJS    = "module.exports = { main() { return 1 } }"
	moduleJS    = "import fs from 'node:fs'\nexport const main = () => fs.existsSync('x')"
	scriptJS    = "if (process.env.X) return\nexports.main = () => 'export default'"
	brokenJS    = "module.exports = {\n  main() { return 1\n}"
	brokenESM   = "import fs from 'node:fs'\nexport function main() { return ( }"
	python      = "def main(event, context):\n    return 1\n"
	brokenPy    = "def main(event, context):\n    return (1\n"
	nullPy      = "x = '\x00'\n"
	packageESM  = `{"type": "module"}`
	packageCJS  = `{"type": "commonjs"}`
	packageMain = `{"main": "./src/index.js"}`
)

func TestASourceThatCompilesPassesAndOthersSayWhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		python bool
		files  map[string]string
		says   []string // empty: it compiles
	}{
		"CommonJS":                        {files: map[string]string{"handler.js": commonJS}},
		"an ES module":                    {files: map[string]string{"handler.js": moduleJS}},
		"an ES module by name":            {files: map[string]string{"handler.mjs": moduleJS}},
		"an ES module by package":         {files: map[string]string{"handler.js": moduleJS, "package.json": packageESM}},
		"what only CommonJS allows":       {files: map[string]string{"handler.js": scriptJS}},
		"the main of a package":           {files: map[string]string{"src/index.js": commonJS, "package.json": packageMain}},
		"a script with an interpreter":    {files: map[string]string{"handler.js": "#!/usr/bin/env node\n" + commonJS}},
		"Python":                          {python: true, files: map[string]string{"handler.py": python}},
		"a missing bracket":               {files: map[string]string{"handler.js": brokenJS}, says: []string{"handler.js:3", "SyntaxError: Unexpected end of input"}},
		"a missing bracket in a module":   {files: map[string]string{"handler.js": brokenESM}, says: []string{"handler.js:2", "return ( }", "SyntaxError: Unexpected token '}'"}},
		"a module that is said not to be": {files: map[string]string{"handler.js": moduleJS, "package.json": packageCJS}, says: []string{"import statement outside a module"}},
		"a script that is said to be one": {files: map[string]string{"handler.mjs": scriptJS}, says: []string{"Illegal return statement"}},
		"a missing parenthesis in Python": {
			python: true, files: map[string]string{"handler.py": brokenPy}, says: []string{`File "handler.py", line 2`, "SyntaxError: '(' was never closed"},
		},
		"what no Python source has": {python: true, files: map[string]string{"handler.py": nullPy}, says: []string{"null bytes"}},
		"no handler":                {files: map[string]string{"index.js": commonJS}, says: []string{"there is no handler.js in the directory fn of the repository", "baseDir"}},
		"no handler in Python":      {python: true, files: map[string]string{"main.py": python}, says: []string{"there is no handler.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := buildplan.Plan{Runtime: "nodejs22", Git: &buildplan.Git{BaseDir: "/fn/"}}
			if tc.python {
				plan.Runtime = "python312"
			}
			dir := t.TempDir()
			for file, content := range tc.files {
				write(t, filepath.Join(dir, file), content)
			}
			task, err := taskOf(plan)
			require.NoError(t, err)
			err = newJob(t, plan).builder().check(t.Context(), task, dir)
			if len(tc.says) == 0 {
				require.NoError(t, err)
				return
			}
			var failed *reasonError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, language.SourceInvalid, failed.reason)
			for _, part := range tc.says {
				require.Contains(t, failed.message, part)
			}
			require.NotContains(t, failed.message, "node:internal")
		})
	}
}

func TestSourcesAreDealtOutBySizeAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, size := range map[string]int{
		"handler.py": 10, "assets/logo.svg": 1 << 20, ".local/big/a.py": 400 << 10, ".local/big/deep/b.py": 400 << 10,
		".local/middle/a.py": 300 << 10, ".local/small.py": 200 << 10, ".local/binary.so": 1 << 20, ".local/empty/__init__.py": 0,
	} {
		write(t, filepath.Join(dir, file), strings.Repeat("#", size))
	}
	python, err := languages.Of("python312")
	require.NoError(t, err)
	shards, err := shardsOf(python, dir)
	require.NoError(t, err)
	in := func(names ...string) []string {
		for i, name := range names {
			names[i] = filepath.Join(dir, name)
		}
		return names
	}
	require.Equal(t, [][]string{in(".local/big"), in(".local/middle"), in(".local/small.py", "handler.py", ".local/empty")}, shards)
}

func TestPythonFilesThatDoNotCompileDoNotFailTheBuild(t *testing.T) {
	t.Parallel()
	j := newJob(t, buildplan.Plan{Runtime: "python312", Git: &buildplan.Git{}})
	j.git = repository(t, map[string]string{"handler.py": python, "old.py": "print 'Python 2'\n", "token.py": "raise RuntimeError\n"})
	result := j.prepared(t)
	require.Empty(t, result.Reason, result.Message)
	compiled, err := filepath.Glob(filepath.Join(j.o.Function, "__pycache__", "*.pyc"))
	require.NoError(t, err)
	require.Len(t, compiled, 2)
}
