package builder

import (
	"archive/tar"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
	"github.com/rouse-run/rouse/runtimes/language"
)

func digestOf(t *testing.T, image v1.Image) string {
	t.Helper()
	digest, err := image.Digest()
	require.NoError(t, err)
	return digest.String()
}

// overwrite lets every tag of a repository name another image, as every client that may push there can.
func overwrite(t *testing.T, at *registrytest.Registry, repository string, image v1.Image) {
	t.Helper()
	opened, err := name.NewRepository(at.Host + "/" + repository)
	require.NoError(t, err)
	tags, err := remote.List(opened, reach(t, at)...)
	require.NoError(t, err)
	require.NotEmpty(t, tags)
	for _, tag := range tags {
		require.NoError(t, remote.Write(opened.Tag(tag), image, reach(t, at)...))
	}
}

func TestAPushedTagChangesNoBuild(t *testing.T) {
	t.Parallel()
	upstream := registrytest.Start(t, registrytest.WithTLS())
	server := registrytest.Start(t)
	honest, evil := runtimeImage(t, types.OCIManifestSchema1), runtimeImage(t, types.OCIManifestSchema1)
	base := put(t, upstream, "runtime:1", honest)
	exact := strings.TrimSuffix(base, ":1") + "@" + digestOf(t, honest)
	built := func(base string) []string {
		j := newJob(t, buildplan.Plan{Runtime: "nodejs22", Base: base, Source: commonJS, Insecure: true, Target: server.Host + "/shop_price:1"})
		write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(upstream.CA))
		return layersOf(t, server, server.Host+"/shop_price@"+j.build(t).Digest)
	}
	require.Equal(t, diffIDs(t, honest), built(base))

	overwrite(t, server, "rouse-base/"+strings.ReplaceAll(upstream.Host, ":", "_")+"/runtime", evil)
	overwrite(t, server, "shop_price", evil)
	for _, base := range []string{base, exact} {
		require.Equal(t, diffIDs(t, honest), built(base), base)
	}
}

func TestABaseThatIsNotWhatItsDigestSaysIsRefused(t *testing.T) {
	t.Parallel()
	server := registrytest.Start(t)
	put(t, server, "runtime:1", runtimeImage(t, types.OCIManifestSchema1))
	wanted := digestOf(t, runtimeImage(t, types.OCIManifestSchema1))
	j := newJob(t, buildplan.Plan{
		Runtime: "nodejs22", Base: server.Host + "/runtime:1@" + wanted, Source: commonJS, Insecure: true, Target: server.Host + "/shop_price:1",
	})
	require.Equal(t, language.BaseUnavailable, j.run(t.Context()).Reason)
}

func TestABaseThatAFunctionChoseIsNotSharedWithOthers(t *testing.T) {
	t.Parallel()
	upstream := registrytest.Start(t, registrytest.WithTLS())
	server := registrytest.Start(t)
	image := runtimeImage(t, types.OCIManifestSchema1)
	j := newJob(t, buildplan.Plan{
		Runtime: "nodejs22", Base: put(t, upstream, "private:1", image), OwnBase: true, Source: commonJS, Insecure: true,
		Target: server.Host + "/shop_price:1",
	})
	write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(upstream.CA))
	require.Equal(t, diffIDs(t, image), layersOf(t, server, server.Host+"/shop_price@"+j.build(t).Digest))
	repositories, err := remote.Catalog(t.Context(), registryOf(t, server.Host), reach(t, server)...)
	require.NoError(t, err)
	require.Equal(t, []string{"shop_price"}, repositories)
}

// Beside the Function's directory is a file with a password, as Secrets are in a build's container.
func TestNoMessageHoldsAFileOutsideOfTheSource(t *testing.T) {
	t.Parallel()
	const password = "cannot-be-guessed"
	for name, tc := range map[string]struct {
		runtime string
		plant   func(t *testing.T, source, secret string)
	}{
		"main leads out": {"nodejs22", func(t *testing.T, source, secret string) {
			t.Helper()
			relative, err := filepath.Rel(source, secret)
			require.NoError(t, err)
			write(t, filepath.Join(source, "package.json"), `{"main": "`+relative+`"}`)
		}},
		"main is absolute": {"nodejs22", func(t *testing.T, source, secret string) {
			t.Helper()
			write(t, filepath.Join(source, "package.json"), `{"main": "`+secret+`"}`)
		}},
		"the handler is a link": {"nodejs22", func(t *testing.T, source, secret string) {
			t.Helper()
			require.NoError(t, os.Symlink(secret, filepath.Join(source, "handler.js")))
		}},
		"a Python handler is a link": {"python312", func(t *testing.T, source, secret string) {
			t.Helper()
			require.NoError(t, os.Symlink(secret, filepath.Join(source, "handler.py")))
		}},
		"a directory on the way is a link": {"nodejs22", func(t *testing.T, source, secret string) {
			t.Helper()
			require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(source, "lib")))
			write(t, filepath.Join(source, "package.json"), `{"main": "lib/`+filepath.Base(secret)+`"}`)
		}},
		"requirements include another file": {"python312", func(t *testing.T, source, secret string) {
			t.Helper()
			write(t, filepath.Join(source, "handler.py"), python)
			write(t, filepath.Join(source, "requirements.txt"), "-r "+secret+"\n")
		}},
		"the manifest is a link": {"nodejs22", func(t *testing.T, source, secret string) {
			t.Helper()
			write(t, filepath.Join(source, "handler.js"), commonJS)
			require.NoError(t, os.Symlink(secret, filepath.Join(source, "package.json")))
		}},
		"a script of a package prints it": {"nodejs22", func(t *testing.T, source, secret string) {
			t.Helper()
			write(t, filepath.Join(source, "handler.js"), commonJS)
			write(t, filepath.Join(source, "package.json"), `{"dependencies": {}, "scripts": {"preinstall": "cat `+secret+` >&2; exit 1"}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, buildplan.Plan{Runtime: tc.runtime, Git: &buildplan.Git{}})
			secret := filepath.Join(j.o.Packages, ".npmrc")
			write(t, secret, "//npm.example.org/:_authToken="+password+"\n")
			tc.plant(t, j.o.Source, secret)
			result := j.builder().Prepare(t.Context())
			require.NotEmpty(t, result.Reason, "the attack has to be noticed")
			for _, text := range []string{result.Message, result.Log, j.output.String(), j.log.String()} {
				require.NotContains(t, text, password)
			}
		})
	}
}

func TestSecretsOfPackageManagersAreKnownInEachForm(t *testing.T) {
	t.Parallel()
	j := newJob(t, buildplan.Plan{})
	write(t, filepath.Join(j.o.Packages, ".npmrc"), "registry=https://npm.example.org/\n//npm.example.org/:_auth=Y29vazpnYXJsaWMtc2F1Y2U=\n"+
		"//npm.example.org/:_password=\"cGVwcGVy\"\n always-auth=true\nemail=cook@example.org\n")
	write(t, filepath.Join(j.o.Packages, "pip.conf"), "[global]\nindex-url = https://cook:p%40ss%3Aword@index.example.org/simple\n")
	secrets := j.builder().secrets()
	for _, text := range []string{"Y29vazpnYXJsaWMtc2F1Y2U=", "cook:garlic-sauce", "garlic-sauce", "cGVwcGVy", "pepper", "p%40ss%3Aword", "p@ss:word"} {
		require.Equal(t, "a "+hidden+" b", secrets.mask("a "+text+" b"))
	}
	for _, text := range []string{"https://npm.example.org/", "true", "cook@example.org", "index.example.org"} {
		require.Equal(t, text, secrets.mask(text))
	}
	var written bytes.Buffer
	output := secrets.writer(&written)
	for _, part := range []string{"one gar", "lic-sauce two\nthree pep", "per"} {
		_, err := io.WriteString(output, part)
		require.NoError(t, err)
	}
	output.flush()
	require.Equal(t, "one "+hidden+" two\nthree "+hidden, written.String())
}

// What a package's script can send instead of the layer, and what it can leave on its way.
func TestALayerHoldsNothingButTheFunctionsDirectory(t *testing.T) {
	t.Parallel()
	archive := func(headers ...tar.Header) []byte {
		var text bytes.Buffer
		to := tar.NewWriter(&text)
		for _, header := range headers {
			require.NoError(t, to.WriteHeader(&header))
			_, err := to.Write(make([]byte, header.Size))
			require.NoError(t, err)
		}
		require.NoError(t, to.Close())
		return text.Bytes()
	}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
	}
	whole := append(archive(file("kubeless/a", 1)), handoverEnd...)
	for name, tc := range map[string]struct {
		sent []byte
		says string
	}{
		"the server of the runtime":  {append(archive(file("kubeless.py", 1)), handoverEnd...), "outside"},
		"a way around":               {append(archive(file("kubeless/../etc/passwd", 1)), handoverEnd...), "outside"},
		"an absolute name":           {append(archive(file("/kubeless/a", 1)), handoverEnd...), "outside"},
		"a link to a file's content": {append(archive(tar.Header{Typeflag: tar.TypeLink, Name: "kubeless/a", Linkname: "/rouse/registry/config.json"}), handoverEnd...), "neither a file"},
		"a device":                   {append(archive(tar.Header{Typeflag: tar.TypeChar, Name: "kubeless/a"}), handoverEnd...), "neither a file"},
		"too much":                   {append(archive(file("kubeless/a", 600), file("kubeless/b", 600)), handoverEnd...), "more than"},
		"what is no archive":         {bytes.Repeat([]byte("x"), 4096), "no layer"},
		"nothing":                    {nil, errNotHandedOver.Error()},
		"half of it":                 {whole[:700], errNotHandedOver.Error()},
		"all but the end":            {whole[:len(whole)-1], errNotHandedOver.Error()},
		"more after the end":         {append(bytes.Clone(whole), 'x'), errNotHandedOver.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readLayer(bytes.NewReader(tc.sent), "/kubeless", filepath.Join(t.TempDir(), "layer"), 1000)
			require.ErrorContains(t, err, tc.says)
		})
	}
	odd := tar.Header{Typeflag: tar.TypeReg, Name: "kubeless/./a", Mode: 0o6777, Uid: 7, Uname: "x", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}
	packed, err := readLayer(io.MultiReader(bytes.NewReader(archive(odd)), strings.NewReader(handoverEnd)), "/kubeless", filepath.Join(t.TempDir(), "layer"), 0)
	require.NoError(t, err)
	require.Contains(t, printed(t, "/", "tar", "--utc", "--numeric-owner", "-tvzf", packed.file), "-rwxr-xr-x 0/0")
}

func TestPushEndsWhenInstallHandsNoLayerOver(t *testing.T) {
	t.Parallel()
	server := registrytest.Start(t)
	base := put(t, server, "runtime:1", runtimeImage(t, types.OCIManifestSchema1))
	j := newJob(t, buildplan.Plan{Runtime: "nodejs22", Base: base, Source: commonJS, Insecure: true, Target: server.Host + "/shop_price:1"})
	ended := make(chan buildplan.Result, 1)
	go func() { ended <- j.builder().Push(t.Context()) }()
	to, err := dialHandover(t.Context(), j.o.Handover)
	require.NoError(t, err)
	_, err = to.conn.Write([]byte("begun"))
	require.NoError(t, err)
	to.close() // as the kernel does when the memory of the container is used up
	require.Equal(t, buildplan.Result{}, <-ended)
	_, err = net.Dial("unix", filepath.Join(j.o.Handover, buildplan.HandoverSocket))
	require.Error(t, err)
}
