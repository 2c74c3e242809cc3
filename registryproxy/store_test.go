package registryproxy

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

const keep = time.Hour

// storeFixture is a real registry with its Store, which sees the requests first.
type storeFixture struct {
	*Store
	t        *testing.T
	registry *registrytest.Registry
}

func startStore(t *testing.T) *storeFixture {
	t.Helper()
	f := &storeFixture{t: t, registry: registrytest.Start(t)}
	f.Store = NewStore(StoreOptions{Directory: f.registry.Directory(), Interval: time.Hour, Keep: keep}, prometheus.NewRegistry(), logr.Discard())
	f.registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		f.Note(r)
		return false
	})
	return f
}

func picture(t *testing.T) v1.Image {
	t.Helper()
	made, err := random.Image(1000, 3)
	require.NoError(t, err)
	return made
}

func (f *storeFixture) tag(reference string) name.Tag {
	f.t.Helper()
	tag, err := name.NewTag(f.registry.Host+"/"+reference, name.Insecure)
	require.NoError(f.t, err)
	return tag
}

func (f *storeFixture) push(reference string, made v1.Image) {
	f.t.Helper()
	require.NoError(f.t, remote.Write(f.tag(reference), made))
}

// remove does what the collector of images does.
func (f *storeFixture) remove(reference string) {
	f.t.Helper()
	require.NoError(f.t, remote.Delete(f.tag(reference)))
}

// requireWhole fails unless an image is there with all that belongs to it.
func (f *storeFixture) requireWhole(reference name.Reference) {
	f.t.Helper()
	found, err := remote.Image(reference)
	require.NoError(f.t, err)
	require.NoError(f.t, validate.Image(found), "%s has lost a part", reference)
}

// age makes all files as old as that.
func (f *storeFixture) age(by time.Duration) {
	f.t.Helper()
	at := time.Now().Add(-by)
	require.NoError(f.t, filepath.WalkDir(f.registry.Directory(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chtimes(path, at, at)
	}))
}

// files are those whose names match.
func (f *storeFixture) files(named string) (found []string) {
	f.t.Helper()
	require.NoError(f.t, filepath.WalkDir(f.registry.Directory(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.Contains(path, named) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func (f *storeFixture) sweep() {
	f.t.Helper()
	require.NoError(f.t, f.Sweep(f.t.Context()))
}

func TestWhatNoImageHasIsFreedAndCanBePushedAgain(t *testing.T) {
	t.Parallel()
	f := startStore(t)
	old, stays := picture(t), picture(t)
	f.push("shop_1_old:1", old)
	f.push("shop_1_stays:1", stays)
	f.push("rouse-base/example.org/runtime:v1", picture(t))
	f.remove("shop_1_old:1")
	f.sweep()
	require.Len(t, f.files("/blobs/"), 15, "nothing is old yet")
	f.age(2 * keep)
	f.sweep()
	require.Len(t, f.files("/blobs/"), 10)
	require.Empty(t, f.files("/shop_1_old/"), "neither does the repository know of it")
	f.requireWhole(f.tag("shop_1_stays:1"))
	f.requireWhole(f.tag("rouse-base/example.org/runtime:v1"))
	f.push("shop_1_old:1", old)
	f.requireWhole(f.tag("shop_1_old:1"))
}

func TestWhatARequestNamesStays(t *testing.T) {
	t.Parallel()
	f := startStore(t)
	old := picture(t)
	f.push("shop_1_old:1", old)
	layers, err := old.Layers()
	require.NoError(t, err)
	layer, err := layers[0].Digest()
	require.NoError(t, err)
	manifest, err := old.Digest()
	require.NoError(t, err)
	f.remove("shop_1_old:1")
	for what, name := range map[string]func() *http.Request{
		"in its path": func() *http.Request { return httptest.NewRequest(http.MethodHead, "/v2/x/blobs/"+layer.String(), nil) },
		"as a mount": func() *http.Request {
			return httptest.NewRequest(http.MethodPost, "/v2/x/blobs/uploads/?mount="+layer.String()+"&from=y", nil)
		},
		"as an upload": func() *http.Request {
			return httptest.NewRequest(http.MethodPut, "/v2/x/blobs/uploads/1?digest="+layer.String(), nil)
		},
		"in a manifest that comes in parts": func() *http.Request {
			r := httptest.NewRequest(http.MethodPut, "/v2/x/manifests/1", iotest.OneByteReader(strings.NewReader(`{"layers":[{"digest":"`+layer.String()+`"}]}`)))
			return r
		},
	} {
		f.age(2 * keep)
		r := name()
		f.Note(r)
		_, err := io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		require.NotEmpty(t, f.files(layer.Hex+"/data"))
		f.sweep()
		require.NotEmpty(t, f.files(layer.Hex+"/data"), what)
		f.push("shop_1_old:1", old) // for the next one
		f.remove("shop_1_old:1")
	}
	f.age(2 * keep)
	text, err := old.RawManifest()
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPut, "/v2/x/manifests/1", strings.NewReader(string(text)))
	f.Note(r)
	read, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, text, read)
	f.sweep()
	require.NotEmpty(t, f.files("/blobs/sha256/"+manifest.Hex[:2]+"/"+manifest.Hex), "the manifest itself")
}

func TestManifestsWithoutATagGoUnlessAnIndexNamesThemOrTheyAreYoung(t *testing.T) {
	t.Parallel()
	f := startStore(t)
	children := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: picture(t)}, mutate.IndexAddendum{Add: picture(t)})
	require.NoError(t, remote.WriteIndex(f.tag("rouse-base/runtime:v1"), children))
	overwritten, present := picture(t), picture(t)
	f.push("shop_1_price:1", overwritten)
	f.age(2 * keep)
	f.push("shop_1_price:1", present)
	digest, err := overwritten.Digest()
	require.NoError(t, err)
	former := f.tag("shop_1_price:1").Context().Digest(digest.String())
	f.requireWhole(former) // which names it
	f.sweep()
	f.requireWhole(former)
	f.age(2 * keep)
	f.sweep()
	_, err = remote.Get(former)
	require.Error(t, err)
	require.Empty(t, f.files(digest.Hex))
	f.requireWhole(f.tag("shop_1_price:1"))
	index, err := remote.Index(f.tag("rouse-base/runtime:v1"))
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
}

func TestASweepGoesPartByPart(t *testing.T) {
	t.Parallel()
	f := startStore(t)
	f.most = 2
	for _, each := range []string{"a", "b", "c", "d"} {
		f.push("shop_1_"+each+":1", picture(t))
	}
	f.push("shop_1_stays:1", picture(t))
	for _, each := range []string{"a", "b", "c", "d"} {
		f.remove("shop_1_" + each + ":1")
	}
	f.age(2 * keep)
	for range 5 { // two blobs of the same first digits may be more than a part
		f.sweep()
	}
	require.Len(t, f.files("/blobs/"), 5)
	f.requireWhole(f.tag("shop_1_stays:1"))
}

func TestAManifestThatCannotBeReadStopsASweep(t *testing.T) {
	t.Parallel()
	f := startStore(t)
	f.push("shop_1_old:1", picture(t))
	f.push("shop_1_stays:1", picture(t))
	f.remove("shop_1_old:1")
	links := f.files("/shop_1_stays/_manifests/revisions/")
	require.Len(t, links, 1)
	blob := f.blob("sha256:" + filepath.Base(filepath.Dir(links[0])))
	require.NoError(t, os.Remove(blob))
	require.NoError(t, os.Mkdir(blob, 0o755))
	f.age(2 * keep)
	before := len(f.files("/blobs/"))
	require.ErrorContains(t, f.Sweep(t.Context()), "read the manifest sha256:")
	require.Len(t, f.files("/blobs/"), before)
}

func TestARegistryToWhichNothingWasEverPushedIsSwept(t *testing.T) {
	t.Parallel()
	startStore(t).sweep()
}

// An image whose blobs are all old and unused is pushed while they are removed, again and again.
func TestAnImageThatIsPushedDuringASweepIsWhole(t *testing.T) {
	t.Parallel()
	f := startStore(t)
	made := picture(t)
	for range 30 {
		f.push("shop_1_price:1", made)
		f.remove("shop_1_price:1")
		f.age(2 * keep)
		swept := make(chan error, 1)
		go func() { swept <- f.Sweep(t.Context()) }()
		f.push("shop_1_price:1", made)
		require.NoError(t, <-swept)
		f.requireWhole(f.tag("shop_1_price:1"))
		f.sweep()
		f.requireWhole(f.tag("shop_1_price:1"))
	}
}
