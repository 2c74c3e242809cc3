package builder

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
	"github.com/rouse-run/rouse/runtimes/language"
)

// shareObjects has the compiler use what it has compiled on this machine before.
func shareObjects(cache string) error {
	found, err := exec.CommandContext(context.Background(), "go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	return os.Symlink(strings.TrimSpace(string(found)), filepath.Join(cache, "objects"))
}

// layerOfGo is the root of the layer of a Go runtime.
var layerOfGo = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(packages, "layer")
	return dir, exec.CommandContext(context.Background(), "../runtimes/golang/layer.sh", dir, "go", dir).Run()
})

func newGoJob(t *testing.T, plan buildplan.Plan) *job {
	t.Helper()
	plan.Runtime = "go126"
	j := newJob(t, plan)
	root, err := layerOfGo()
	require.NoError(t, err)
	j.o.Server = filepath.Join(root, "usr/src/app")
	return j
}

const (
	goHead = `package handler

import (
	"context"

	"github.com/rouse-run/rouse/runtimes/golang/function"
)
`
	goHandler = goHead + `
func Handle(_ context.Context, event function.Event) (any, error) {
	return "got " + string(event.Data), nil
}
`
	goPlain = `package plain

import (
	"io"
	"net/http"

	"github.com/google/uuid"
)

func Handle(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, uuid.Nil.String())
}
`
)

func TestTheImageOfACompiledFunctionHoldsItsBinaryAndNoCompiler(t *testing.T) {
	t.Parallel()
	server := registrytest.Start(t)
	built := func() v1.Image {
		j := newGoJob(t, buildplan.Plan{
			Base: "no-registry.invalid/compiler:1", Source: goHandler, Target: server.Host + "/shop-price:1", Insecure: true,
		})
		result := j.build(t)
		reference, err := name.ParseReference(server.Host + "/shop-price@" + result.Digest)
		require.NoError(t, err)
		image, err := remote.Image(reference, reach(t, server)...)
		require.NoError(t, err)
		return image
	}
	image := built()
	files := map[string]int64{}
	layers, err := image.Layers()
	require.NoError(t, err)
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		require.NoError(t, err)
		for archive := tar.NewReader(content); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if header.Typeflag == tar.TypeReg {
				files[header.Name] = header.Size
			}
		}
	}
	require.Len(t, files, 4)
	require.Contains(t, files, "etc/ssl/certs/ca-certificates.crt")
	require.Less(t, files["function/server"], int64(12<<20))
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/function/server"}, config.Config.Entrypoint)
	require.Equal(t, "1000:1000", config.Config.User)

	first, err := image.Digest()
	require.NoError(t, err)
	again, err := built().Digest()
	require.NoError(t, err)
	require.Equal(t, first, again, "the same plan has given another image")
}

func TestACompiledFunctionAnswersAsItsSourceSays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan buildplan.Plan
		git  map[string]string
		want string
	}{
		"an inline event handler": {plan: buildplan.Plan{Source: goHandler}, want: "got it"},
		"an inline HTTP handler with a module": {
			plan: buildplan.Plan{Source: goPlain, Dependencies: "require github.com/google/uuid v1.6.0\n"}, want: "00000000-0000-0000-0000-000000000000",
		},
		"a repository with packages of its own": {
			plan: buildplan.Plan{Git: &buildplan.Git{}}, want: "hello it",
			git: map[string]string{
				"go.mod": "module example.org/shop/v2\n\ngo 1.26\n\nrequire example.org/lib v1.0.0\n\nreplace example.org/lib => ./lib\n",
				"handler.go": strings.Replace(goHandler, `"context"`, "\"context\"\n\t\"example.org/lib\"\n\t\"example.org/shop/v2/internal/greet\"\n", 1) +
					"\nvar _ = lib.Name\n\nfunc init() { greet.Used() }\n",
				"internal/greet/greet.go": "package greet\n\nfunc Used() {}\n",
				"lib/go.mod":              "module example.org/lib\n\ngo 1.26\n", "lib/lib.go": "package lib\n\nconst Name = 1\n",
				"tool/main.go": "package main\n\nimport \"no.example/module\"\n\nfunc main() { module.Run() }\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.git != nil {
				tc.git["handler.go"] = strings.Replace(tc.git["handler.go"], `"got "`, `"hello "`, 1)
				delete(tc.git, "tool/main.go")
			}
			j := newGoJob(t, tc.plan)
			j.git = repository(t, tc.git)
			result := j.prepared(t)
			require.Empty(t, result.Reason, "%s\n%s", result.Message, j.output)
			entries, err := os.ReadDir(j.o.Function)
			require.NoError(t, err)
			require.Len(t, entries, 1, "only the binary")
			require.Equal(t, tc.want, answerOf(t, filepath.Join(j.o.Function, "server")))
		})
	}
}

// answerOf is what a Function answers to a POST of a word.
func answerOf(t *testing.T, program string) string {
	t.Helper()
	ready, writer, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, ready.Close()) }()
	command := exec.CommandContext(t.Context(), program)
	var output bytes.Buffer
	command.Env = []string{"FUNC_PORT=0", "FUNC_READY_FD=3", "TERMINATION_LOG_PATH=" + os.DevNull}
	command.ExtraFiles, command.Stderr = []*os.File{writer}, &output
	require.NoError(t, command.Start())
	require.NoError(t, writer.Close())
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	port, err := bufio.NewReader(ready).ReadString('\n')
	require.NoError(t, err, "it does not start: %s", &output)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+strings.TrimSpace(port), strings.NewReader("it"))
	require.NoError(t, err)
	answer, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func TestASourceThatDoesNotCompileSaysWhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source, dependencies string
		want                 language.Reason
		says                 string
	}{
		"a syntax error":     {goHead + "\nfunc Handle(\n", "", language.SourceInvalid, "handler.go:9:14: expected"},
		"an unknown name":    {strings.Replace(goHandler, "event.Data", "event.Daten", 1), "", language.SourceInvalid, "handler.go:10:31: event.Daten undefined"},
		"no Handle":          {strings.Replace(goHandler, "Handle", "handle", 1), "", language.SourceInvalid, "there is no func Handle in handler.go; write one of"},
		"another signature":  {"package handler\n\nfunc Handle(s string) {}\n", "", language.SourceInvalid, "handler.go: Handle is a func(s string); write one of"},
		"a package main":     {strings.Replace(goHandler, "package handler", "package main", 1), "", language.SourceInvalid, "handler.go:1: the package must not be main"},
		"C":                  {goHandler + "\n", "x", language.SourceInvalid, `"x" is not a directive`},
		"an unknown package": {strings.Replace(goHandler, `"context"`, `"contexts"`, 1), "", language.SourceInvalid, "contexts is not in std"},
		"a module that is missing": {
			goPlain, "", language.SourceInvalid, "handler.go:7: no module in spec.source.inline.dependencies provides github.com/google/uuid; add it there",
		},
		"a newer Go": {goHandler, "go 1.99\n", language.InvalidDependencies, "requires go >= 1.99, and the runtime has 1.26"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newGoJob(t, buildplan.Plan{Source: tc.source, Dependencies: tc.dependencies})
			result := j.prepared(t)
			require.Equal(t, tc.want, result.Reason, "%s\n%s", result.Message, j.output)
			require.Contains(t, result.Message, tc.says, j.output)
			require.NotContains(t, result.Message, j.o.Work)
			require.NoFileExists(t, filepath.Join(j.o.Function, "server"))
			require.NoDirExists(t, filepath.Join(j.o.Work, "home/.config/go/telemetry/local"), "telemetry leaves a process behind")
		})
	}
}

func TestACompilerRunsNothingOfASourceAndReadsNothingOutsideOfIt(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, filepath.Join(secret, "go.mod"), "module example.org/secret\n\ngo 1.26\n")
	write(t, filepath.Join(secret, "secret.go"), "package secret\n\nconst Word = \"xyzzy\"\n")
	module := "module example.org/shop\n\ngo 1.26\n"
	for name, tc := range map[string]struct {
		files map[string]string
		link  string
		says  string
	}{
		"a replacement by a folder of the builder": {
			files: map[string]string{"go.mod": module + "require example.org/secret v0.0.0\nreplace example.org/secret => " + secret + "\n"},
			says:  "line 5 replaces example.org/secret by a folder outside of the source",
		},
		"one that climbs": {
			files: map[string]string{"go.mod": module + "require example.org/secret v0.0.0\nreplace example.org/secret => ./a/../../secret\n"},
			says:  "by a folder outside of the source",
		},
		"a replacement in the name of the module": {
			files: map[string]string{
				"go.mod":  "module \"v1.0.0\\nreplace\\x20example.org/secret\\x20=>\\x20" + secret + "\"\n\ngo 1.26\n\nrequire example.org/secret v0.0.0\n",
				"more.go": "package handler\n\nimport _ \"example.org/secret\"\n",
			},
			says: "line 1: module has \"v1.0.0\\nreplace",
		},
		"one in the version of Go": {
			files: map[string]string{"go.mod": "module example.org/shop\n\ngo \"1.26\\nreplace\\x20example.org/secret\\x20=>\\x20" + secret + "\"\n"},
			says:  "line 3: go has \"1.26\\nreplace",
		},
		"one in a replacement": {
			files: map[string]string{"go.mod": module + "replace example.org/a => \"./a\\nreplace\\x20example.org/secret\\x20=>\\x20" + secret + "\"\n"},
			says:  "line 4: replace has \"./a\\nreplace",
		},
		"one whose version is a comment": {
			files: map[string]string{"go.mod": module + "require example.org/secret v0.0.0\nreplace example.org/secret => \"" +
				strings.ReplaceAll(secret, "/", "\\x2f") + "\\x2f\\x2fa\" v0.0.0\n"},
			says: "and no //",
		},
		"a link to a file of the builder":   {link: filepath.Join(secret, "secret.go"), says: "link.go is a link that leads nowhere, or out of the source"},
		"a link to a folder of the builder": {link: secret, says: "link.go is a link that leads nowhere, or out of the source"},
		"a module in a repository": {
			files: map[string]string{"go.mod": module + "require example.invalid/repo.git v0.0.0\n", "more.go": "package handler\n\nimport _ \"example.invalid/repo.git\"\n"},
		},
		"C": {
			files: map[string]string{"more.go": "package handler\n\n// int f() { return 1; }\nimport \"C\"\n\nfunc init() { C.f() }\n", "use.go": "package handler\n\nvar _ = inC\n"},
			says:  "use.go:3:9: undefined: inC",
		},
		"assembly that includes a file of the builder": {
			files: map[string]string{"more_amd64.s": "#include \"" + secret + "/secret.go\"\n"}, says: "more_amd64.s: assembly may include any file",
		},
		"a program that generates files": {
			files: map[string]string{"more.go": "package handler\n\n//go:generate touch generated.go\nvar _ = Generated\n"}, says: "undefined: Generated",
		},
		"another toolchain": {
			files: map[string]string{"go.mod": "module example.org/shop\n\ngo 1.26\n\ntoolchain go1.99.0\n", "more.go": "package handler\n\nvar _ = missing\n"},
			says:  "more.go:3:9: undefined: missing",
		},
		"a vendored module": {
			files: map[string]string{
				"go.mod": module + "require example.invalid/dep v1.0.0\n", "vendor/modules.txt": "# example.invalid/dep v1.0.0\n## explicit\nexample.invalid/dep\n",
				"vendor/example.invalid/dep/dep.go": "package dep\n", "more.go": "package handler\n\nimport _ \"example.invalid/dep\"\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newGoJob(t, buildplan.Plan{Git: &buildplan.Git{}})
			files := map[string]string{"handler.go": goHandler}
			maps.Copy(files, tc.files)
			j.git = gitFunc(func(_ context.Context, _ buildplan.Git, into string) error {
				for file, content := range files {
					write(t, filepath.Join(into, file), content)
				}
				if tc.link != "" {
					return os.Symlink(tc.link, filepath.Join(into, "link.go"))
				}
				return nil
			})
			result := j.prepared(t)
			require.NotEmpty(t, result.Reason, j.output)
			require.Contains(t, result.Message, tc.says, j.output)
			require.NotContains(t, result.Message+result.Log+j.output.String(), "xyzzy")
		})
	}
}

func TestModulesComeFromTheProxyOfTheSettings(t *testing.T) {
	t.Parallel()
	proxy := moduleProxy(t)
	settings := func(user string) string {
		return "GOPROXY=" + strings.Replace(proxy.URL, "://", "://"+user, 1) + "\nGOSUMDB=off\nGOFLAGS=-toolexec=/bin/false\nCGO_ENABLED=1\n"
	}
	source := strings.Replace(goHandler, `"context"`, "\"context\"\n\n\t\"example.invalid/priv\"", 1) + "\nvar _ = priv.Name\n"
	for name, tc := range map[string]struct {
		settings, version string
		want              language.Reason
		says              string
	}{
		"with credentials":    {settings: settings("ada:Sesame-7@"), version: "v1.0.0"},
		"without credentials": {settings: settings(""), version: "v1.0.0", want: language.PackageForbidden, says: "put credentials into the Secret serverless-package-registry-config"},
		"with wrong ones":     {settings: settings("ada:Sesame-8@"), version: "v1.0.0", want: language.PackageForbidden, says: "the module proxy refuses access to"},
		"a version that is none": {
			settings: settings("ada:Sesame-7@"), version: "v1.9.0", want: language.PackageNotFound, says: "there is no example.invalid/priv@v1.9.0; correct spec.source",
		},
		"a package that the module lacks": {
			settings: settings("ada:Sesame-7@"), version: "v1.1.0", want: language.PackageNotFound, says: "provides package example.invalid/priv",
		},
		"a proxy that is broken": {settings: settings("ada:Sesame-7@"), version: "v1.5.0", want: language.PackagesUnreachable, says: "does not answer"},
		"a password for everyone": {
			settings: strings.Replace(settings("ada:Sesame-7@"), "https:", "http:", 1), version: "v1.0.0", want: language.PackageForbidden, says: "name the proxy by https",
		},
		"a proxy that is not trusted":    {settings: settings("ada:Sesame-7@"), version: "v1.0.0", want: language.PackagesUnreachable, says: "installation's caBundle"},
		"a proxy that is not there":      {settings: "GOPROXY=http://127.0.0.1:1\nGOSUMDB=off\n", version: "v1.0.0", want: language.PackagesUnreachable, says: "connection refused"},
		"a proxy that asks repositories": {settings: "GOPROXY=direct\nGOSUMDB=off\nGOPRIVATE=example.invalid\nGOVCS=*:all\n", version: "v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newGoJob(t, buildplan.Plan{Source: source, Dependencies: "require example.invalid/priv " + tc.version + "\n"})
			j.o.Cache = "" // what another has fetched does not count
			require.NoError(t, os.Symlink(filepath.Join(packages, "objects"), filepath.Join(j.o.Work, "objects")))
			write(t, filepath.Join(j.o.Packages, "go.env"), tc.settings)
			if name != "a proxy that is not trusted" {
				authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
				write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(authority))
			}
			result := j.builder().Prepare(t.Context())
			if strings.Contains(tc.settings, "direct") {
				require.NotEmpty(t, result.Reason)
				require.NotContains(t, j.output.String(), "git", "a repository was asked")
				return
			}
			require.Equal(t, tc.want, result.Reason, "%s\n%s", result.Message, j.output)
			require.Contains(t, result.Message, tc.says, j.output)
			require.NotContains(t, result.Message+result.Log+j.output.String(), "Sesame")
		})
	}
}

// moduleProxy has a module that only Ada may fetch.
func moduleProxy(t *testing.T) *httptest.Server {
	t.Helper()
	var content bytes.Buffer
	archive := zip.NewWriter(&content)
	for file, text := range map[string]string{"go.mod": "module example.invalid/priv\n", "priv.go": "package priv\n\nconst Name = 1\n"} {
		to, err := archive.Create("example.invalid/priv@v1.0.0/" + file)
		require.NoError(t, err)
		_, err = to.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	var without bytes.Buffer
	archive = zip.NewWriter(&without)
	to, err := archive.Create("example.invalid/priv@v1.1.0/go.mod")
	require.NoError(t, err)
	_, err = to.Write([]byte("module example.invalid/priv\n"))
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "Sesame-7" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		version, kind := strings.TrimPrefix(r.URL.Path, "/example.invalid/priv/@v/"), filepath.Ext(r.URL.Path)
		switch version = strings.TrimSuffix(version, kind); {
		case version == "v1.5.0":
			http.Error(w, "out of order", http.StatusServiceUnavailable)
		case version == "v1.0.0" && kind == ".zip":
			_, _ = w.Write(content.Bytes())
		case version == "v1.1.0" && kind == ".zip":
			_, _ = w.Write(without.Bytes())
		case (version == "v1.0.0" || version == "v1.1.0") && kind == ".mod":
			_, _ = io.WriteString(w, "module example.invalid/priv\n")
		case (version == "v1.0.0" || version == "v1.1.0") && kind == ".info":
			_, _ = io.WriteString(w, `{"Version": "`+version+`"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}
