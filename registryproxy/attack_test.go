package registryproxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var (
	hostile = registry.Tenant{Namespace: "hostile", UID: "1"}
	modest  = registry.Tenant{Namespace: "modest", UID: "2"}
)

// reply is an answer that has been read.
type reply struct {
	status int
	header http.Header
	text   string
}

func replyOf(t *testing.T, response *http.Response) reply {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return reply{status: response.StatusCode, header: response.Header, text: string(text)}
}

// ask sends a request of a tenant, and reads the answer.
func (f fixture) ask(t *testing.T, tenant registry.Tenant, method, path string, body io.Reader) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.host+path, body)
	require.NoError(t, err)
	request.SetBasicAuth(tenant.Account(), registry.Password(key, tenant.Account()))
	request.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	return replyOf(t, response)
}

// requireRefused looks at what clients of registries read.
func requireRefused(t *testing.T, status int, code, says string, got reply) {
	t.Helper()
	require.Equal(t, status, got.status, got.text)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	var answer struct {
		Errors []struct{ Code, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(got.text), &answer), got.text)
	require.Len(t, answer.Errors, 1)
	require.Equal(t, code, answer.Errors[0].Code)
	require.Contains(t, answer.Errors[0].Message, says)
	require.Equal(t, status == http.StatusTooManyRequests, got.header.Get("Retry-After") != "")
}

func copyPath(digest string) string {
	return "/v2/rouse-base/example.org/runtime/manifests/" + buildplan.CopyTag("v1", digest)
}

// hang sends a request but for the last byte of its body.
func (f fixture) hang(t *testing.T, tenant registry.Tenant, path string, size int) net.Conn {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+f.host+path, http.NoBody)
	require.NoError(t, err)
	request.SetBasicAuth(tenant.Account(), registry.Password(key, tenant.Account()))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n", path, request.Header.Get("Authorization"), size)
	require.NoError(t, err)
	go func() { _, _ = conn.Write(bytes.Repeat([]byte(" "), size-1)) }() // to whoever reads on
	return conn
}

func TestManifestsThatArriveAreReadWithinTheMemoryOfTheirAccount(t *testing.T) {
	t.Parallel()
	f := startWith(t, nil, func(l *limits) { l.manifestTimeout, l.copiesPerHour = time.Hour, 1000 })
	memory, most := f.proxy.budgets.memory, f.proxy.budgets.limits.manifestBytes/2+64*chunk // and what is each request's own
	for range 64 {
		f.hang(t, hostile, copyPath(blob), maxManifest)
	}
	require.Eventually(t, func() bool { return memory.Used() > maxManifest }, time.Minute, time.Millisecond)
	base, digest := image(t)
	require.NoError(t, remote.Write(f.reference(t, "rouse-base/example.org/runtime:"+buildplan.CopyTag("v1", digest)), base, as(t, modest)...))
	require.LessOrEqual(t, memory.Used(), most)

	all := memory.Share(hostile.Account())
	for all.Acquire(1, most) > 0 {
		require.LessOrEqual(t, memory.Used(), most+chunk)
	}
	got := f.ask(t, hostile, http.MethodPut, copyPath(blob), strings.NewReader(strings.Repeat(" ", maxManifest)))
	requireRefused(t, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many manifests of this namespace arrive at a time", got)
	require.NoError(t, remote.Write(f.reference(t, hostile.Repository("price")+":1"), base, as(t, hostile)...), "what is small always finds room")
}

func TestAManifestThatDoesNotArriveGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	f := startWith(t, nil, func(l *limits) { l.manifestTimeout = 50 * time.Millisecond })
	conn := f.hang(t, hostile, copyPath(blob), chunk)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "400 Bad Request")
	require.Contains(t, string(answer), "the manifest did not arrive whole and in time")
	require.Eventually(t, func() bool { return f.proxy.budgets.memory.Used() == 0 }, time.Minute, 10*time.Millisecond)
	used, waiting := f.proxy.budgets.requests.Stats()
	require.Zero(t, used+waiting)
}

// Nothing is read for an account that has no request left.
func TestAnAccountIsBoundedBeforeAnythingOfItsRequestIsRead(t *testing.T) {
	t.Parallel()
	f := startWith(t, nil, func(l *limits) { l.perSecond, l.burst = 0, 3 })
	for range 3 {
		got := f.ask(t, hostile, http.MethodGet, "/v2/", nil)
		require.Equal(t, http.StatusOK, got.status)
	}
	conn := f.hang(t, hostile, copyPath(blob), maxManifest)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	requireRefused(t, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many requests of this namespace in a second", replyOf(t, answer))
	require.Zero(t, f.proxy.budgets.memory.Used())
	got := f.ask(t, modest, http.MethodGet, "/v2/", nil)
	require.Equal(t, http.StatusOK, got.status)
}

func TestAManifestThatWouldFillTheRegistrysMemoryIsRefused(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	before := f.registry.Requests()
	for name, tc := range map[string]struct {
		text, code, says string
		status           int
	}{
		"many layers": {`{"schemaVersion":2,"layers":[` + strings.Repeat("{},", 1_000_000) + `{}]}`, "MANIFEST_INVALID", "more than 20000 values", http.StatusBadRequest},
		"deep":        {strings.Repeat("[", 100), "MANIFEST_INVALID", "nested too deeply", http.StatusBadRequest},
		"large":       {`{"a":"` + strings.Repeat("a", maxManifest) + `"}`, "SIZE_INVALID", "more than 4 MiB", http.StatusRequestEntityTooLarge},
	} {
		got := f.ask(t, hostile, http.MethodPut, "/v2/"+hostile.Repository("a")+"/manifests/1", strings.NewReader(tc.text))
		requireRefused(t, tc.status, tc.code, tc.says, got)
		require.Len(t, f.registry.Requests(), len(before), name)
	}
	require.Zero(t, f.proxy.budgets.memory.Used())
}

func TestAnAccountHasABoundedNumberOfOpenUploads(t *testing.T) {
	t.Parallel()
	f := startWith(t, nil, func(l *limits) { l.uploads = 20 })
	uploads := func(tenant registry.Tenant) string { return "/v2/" + tenant.Repository("a") + "/blobs/uploads/" }
	var open []string
	for {
		got := f.ask(t, hostile, http.MethodPost, uploads(hostile), nil)
		if got.status != http.StatusAccepted {
			requireRefused(t, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many uploads of this namespace are open", got)
			break
		}
		open = append(open, got.header.Get("Location"))
		require.LessOrEqual(t, len(open), 20)
	}
	require.Len(t, open, 20)
	got := f.ask(t, modest, http.MethodPost, uploads(modest), nil)
	require.Equal(t, http.StatusAccepted, got.status)

	// Of another repository there is no such upload, which ends none.
	elsewhere := strings.Replace(open[0], hostile.Repository("a"), hostile.Repository("b"), 1)
	f.ask(t, hostile, http.MethodDelete, elsewhere, nil)
	got = f.ask(t, hostile, http.MethodPost, uploads(hostile), nil)
	require.Equal(t, http.StatusTooManyRequests, got.status)

	got = f.ask(t, hostile, http.MethodDelete, open[0], nil)
	require.Less(t, got.status, 300, got.text)
	got = f.ask(t, hostile, http.MethodPut, open[1]+"&digest=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", nil)
	require.Equal(t, http.StatusCreated, got.status, got.text)
	for range 2 {
		got = f.ask(t, hostile, http.MethodPost, uploads(hostile), nil)
		require.Equal(t, http.StatusAccepted, got.status, "two have ended")
	}
	got = f.ask(t, hostile, http.MethodPost, uploads(hostile), nil)
	require.Equal(t, http.StatusTooManyRequests, got.status)
}

func TestAnUploadThatNobodyEndsIsForgottenOnceTheRegistryHasDeletedIt(t *testing.T) {
	t.Parallel()
	l := defaultLimits()
	l.uploads = 2
	b := newBudgets(DefaultOptions(), l).of("a")
	now := time.Now()
	require.True(t, b.beginUpload(now))
	require.True(t, b.beginUpload(now))
	require.False(t, b.beginUpload(now), "also while the registry has not answered")
	b.uploaded("/one", now)
	b.uploaded("", now)
	require.True(t, b.beginUpload(now))
	b.uploaded("/two", now)
	require.False(t, b.beginUpload(now.Add(uploadLife)))
	require.True(t, b.beginUpload(now.Add(uploadLife+time.Second)))
}

func TestUploadsThatSendNothingCostWhatTheyTakeOfTheStore(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(o *Options) { o.BytesPerHour = 1 << 20 }, nil)
	for i := range 1 << 20 / uploadPrice {
		got := f.ask(t, hostile, http.MethodPost, "/v2/"+hostile.Repository("a")+"/blobs/uploads/", nil)
		require.Equal(t, http.StatusAccepted, got.status, i)
	}
	got := f.ask(t, hostile, http.MethodPost, "/v2/"+hostile.Repository("a")+"/blobs/uploads/", nil)
	requireRefused(t, http.StatusTooManyRequests, "TOOMANYREQUESTS", "registry.internal.bytesPerHour", got)
	small, _ := image(t)
	require.NoError(t, remote.Write(f.reference(t, modest.Repository("price")+":1"), small, as(t, modest)...))
}

func TestImagesOfANamespaceByHourAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.ImagesPerHour = 3 })
	made, digest := image(t)
	for tag := range 3 {
		require.NoError(t, remote.Write(f.reference(t, hostile.Repository("price")+":"+strconv.Itoa(tag)), made, as(t, hostile)...))
	}
	err := remote.Write(f.reference(t, hostile.Repository("other")+":1"), made, as(t, hostile)...)
	var answer *transport.Error
	require.ErrorAs(t, err, &answer)
	require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
	require.Equal(t, transport.TooManyRequestsErrorCode, answer.Errors[0].Code)
	require.Contains(t, answer.Errors[0].Message, "registry.internal.imagesPerHour")
	_, err = remote.Get(f.reference(t, hostile.Repository("price")+"@"+digest), as(t, hostile)...)
	require.NoError(t, err, "what is there is pulled on")
	require.NoError(t, remote.Write(f.reference(t, modest.Repository("price")+":1"), made, as(t, modest)...))
}

func TestCopiesOfBasesThatANamespaceAddsByHourAreBounded(t *testing.T) {
	t.Parallel()
	f := startWith(t, nil, func(l *limits) { l.copiesPerHour = 2 })
	push := func(tenant registry.Tenant, i int) error {
		made, err := mutate.Config(empty.Image, v1.Config{User: strconv.Itoa(i)})
		require.NoError(t, err)
		digest, err := made.Digest()
		require.NoError(t, err)
		return remote.Write(f.reference(t, "rouse-base/example.org/runtime:"+buildplan.CopyTag("v1", digest.String())), made, as(t, tenant)...)
	}
	require.NoError(t, push(hostile, 1))
	require.NoError(t, push(hostile, 2))
	requireStatus(t, http.StatusTooManyRequests, push(hostile, 3))
	require.NoError(t, push(modest, 4))
}

// A pod that has no account is answered for the registry's health, beside the kubelet.
func TestStrangersThatAskForTheRegistrysHealthLeaveTheKubeletItsAnswer(t *testing.T) {
	t.Parallel()
	f := startWith(t, nil, func(l *limits) { l.strangers, l.turnTimeout = 4, time.Millisecond })
	hanging := make(chan struct{})
	arrived := make(chan struct{}, 8)
	f.registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("hang") {
			arrived <- struct{}{}
			<-hanging
		}
		return false
	})
	defer close(hanging)
	probe := func(from, query string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+query, strings.NewReader(strings.Repeat("x", 1<<20)))
		request.RemoteAddr = from
		f.proxy.ServeHTTP(recorder, request)
		return recorder
	}
	for i := range 2 {
		go probe("10.0.0.9:"+strconv.Itoa(i), "?hang")
		<-arrived
	}
	require.Equal(t, http.StatusTooManyRequests, probe("10.0.0.9:5", "").Code)
	require.Equal(t, http.StatusOK, probe("10.0.0.1:1", "").Code)
}
