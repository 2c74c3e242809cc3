package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	runtimemetrics "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/charts"
	"github.com/rouse-run/rouse/internal/crdschema"
)

func newHandler(t testing.TB) *Handler {
	t.Helper()
	files, err := charts.CRDs()
	require.NoError(t, err)
	definitions, err := crdschema.Definitions(files)
	require.NoError(t, err)
	return NewHandler(definitions[v1alpha2.GroupVersion.WithKind("Function")])
}

// ask sends objects to be converted.
func ask(t *testing.T, h http.Handler, version string, objects ...string) *apiextensionsv1.ConversionResponse {
	t.Helper()
	review := &apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{UID: "1", DesiredAPIVersion: version}}
	review.APIVersion, review.Kind = "apiextensions.k8s.io/v1", "ConversionReview"
	for _, object := range objects {
		review.Request.Objects = append(review.Request.Objects, runtime.RawExtension{Raw: []byte(object)})
	}
	body, err := json.Marshal(review)
	require.NoError(t, err)
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)
	answer := &apiextensionsv1.ConversionReview{}
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), answer))
	require.Equal(t, review.TypeMeta, answer.TypeMeta)
	require.EqualValues(t, "1", answer.Response.UID)
	return answer.Response
}

const (
	up   = "serverless.kyma-project.io/v1alpha2"
	back = "serverless.kyma-project.io/v1alpha1"
)

func oldFunction(spec, annotations string) string {
	return `{"apiVersion":"` + back + `","kind":"Function","metadata":{"name":"a","namespace":"b","annotations":{` + annotations + `}},"spec":{` + spec + `}}`
}

func TestFunctionsAreConvertedToTheRequestedVersion(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	before := oldFunction(`"source":"code","runtime":"nodejs14","resources":{"limits":{"cpu":"1000m"}}`, "")
	answer := ask(t, h, up, before, before)
	require.Equal(t, metav1.StatusSuccess, answer.Result.Status)
	require.Len(t, answer.ConvertedObjects, 2)
	require.Contains(t, string(answer.ConvertedObjects[0].Raw), `"function":{"resources":{"limits":{"cpu":"1000m"}}}`, "in its own form")
	answer = ask(t, h, back, string(answer.ConvertedObjects[0].Raw))
	fn := &v1alpha1.Function{}
	require.NoError(t, json.Unmarshal(answer.ConvertedObjects[0].Raw, fn))
	require.Equal(t, "nodejs14", fn.Spec.Runtime)
	require.Contains(t, string(answer.ConvertedObjects[0].Raw), `"cpu":"1000m"`)
}

// The API server validates objects written as v1alpha1 by the schema of v1alpha1 only.
func TestRulesOfV1alpha2AreNotEvadedByV1alpha1(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	kept := func(fields string) string {
		text, err := json.Marshal(fields)
		require.NoError(t, err)
		return `"rouse.run/v1alpha2-fields":` + string(text)
	}
	const code = `"source":"code","runtime":"nodejs22"`
	for name, tc := range map[string]struct{ object, want string }{
		"a reserved variable":                 {oldFunction(code+`,"env":[{"name":"FUNC_HANDLER","value":"a"}]`, ""), "Following envs are reserved"},
		"a label of the controller":           {oldFunction(code+`,"labels":{"serverless.kyma-project.io/uuid":"a"}`, ""), "Labels has key starting with"},
		"an annotation of the mesh":           {oldFunction(code, kept(`{"only":{"annotations":{"proxy.istio.io/config":"a"}}}`)), "proxy.istio.io/config which is not allowed"},
		"a profile and resources":             {oldFunction(code, kept(`{"resources":{"configuration":{"function":{}}}}`)), "Use profile or resources"},
		"a negative number of pods":           {oldFunction(code, kept(`{"scale":{"replicas":-1}}`)), ""},
		"a repository of another kind":        {oldFunction(`"source":"a","type":"git","baseDir":" ","reference":"b","runtime":"nodejs22"`, ""), "BaseDir is required"},
		"no code":                             {oldFunction(`"source":"","runtime":"nodejs22"`, ""), "spec.source.inline.source"},
		"an unknown runtime":                  {oldFunction(`"source":"a","runtime":"bash"`, ""), `Unsupported value: "bash"`},
		"kept fields of another form":         {oldFunction(code, kept(`{"only":1}`)), "rouse.run/v1alpha2-fields"},
		"kept fields that are malformed JSON": {oldFunction(code, kept(`{`)), "rouse.run/v1alpha2-fields"},
		"a spec of another form":              {oldFunction(`"source":[1]`, ""), "decode it"},
		"not an object":                       {`"a"`, "decode an object"},
		"another kind":                        {`{"apiVersion":"v1","kind":"Secret"}`, `conversion of kind "Secret" is not supported`},
		"another version":                     {`{"apiVersion":"serverless.kyma-project.io/v9","kind":"Function"}`, "conversion from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := ask(t, h, up, oldFunction(code, ""), tc.object)
			if tc.want == "" { // an invalid stored value is ignored
				require.Equal(t, metav1.StatusSuccess, answer.Result.Status, answer.Result.Message)
				require.NotContains(t, string(answer.ConvertedObjects[1].Raw), "-1")
				return
			}
			require.Equal(t, metav1.StatusFailure, answer.Result.Status)
			require.Contains(t, answer.Result.Message, tc.want)
			require.Empty(t, answer.ConvertedObjects)
		})
	}
}

func TestInvalidConversionReviewsAreRejectedWithoutLeaks(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	for name, tc := range map[string]struct {
		body io.Reader
		want int
	}{
		"nothing":              {strings.NewReader(""), http.StatusBadRequest},
		"malformed JSON":       {strings.NewReader("{"), http.StatusBadRequest},
		"no request":           {strings.NewReader(`{"response":{}}`), http.StatusBadRequest},
		"an array":             {strings.NewReader(`[]`), http.StatusBadRequest},
		"deep nesting":         {strings.NewReader(`{"request":{"objects":[` + strings.Repeat("[", 20000) + `]}}`), http.StatusRequestEntityTooLarge},
		"too many values":      {strings.NewReader(`{"request":{"objects":[` + strings.Repeat("[],", maxValues/2) + `[]]}}`), http.StatusRequestEntityTooLarge},
		"too many objects":     {strings.NewReader(`{"request":{"objects":[` + strings.Repeat(`{},`, maxObjects) + `{}]}}`), http.StatusRequestEntityTooLarge},
		"objects of no kind":   {strings.NewReader(`{"request":{"objects":{}}}`), http.StatusBadRequest},
		"more than is allowed": {io.LimitReader(endless{}, maxBody+1), http.StatusRequestEntityTooLarge},
	} {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, tc.body))
		require.Equal(t, tc.want, recorder.Code, name)
		require.Less(t, recorder.Body.Len(), 200, name)
	}
	require.Zero(t, h.memory.Used())
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestCallerThatHoldsMemoryDoesNotBlockTheAPIServer(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	hostile := h.memory.Share("10.0.0.9")
	var held int64
	for got := int64(1); got > 0; held += got {
		got = hostile.Acquire(chunk, chunk)
	}
	defer hostile.Release(held)
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
	request.RemoteAddr = "10.0.0.9:1"
	big := httptest.NewRequest(http.MethodPost, path, io.LimitReader(endless{}, 1<<20))
	big.RemoteAddr = "10.0.0.9:2"
	h.ServeHTTP(recorder, big)
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)

	answer := ask(t, h, up, oldFunction(`"source":"`+strings.Repeat("a", 3<<20)+`","runtime":"nodejs22"`, ""))
	require.Equal(t, metav1.StatusSuccess, answer.Result.Status)
}

// from returns a request from an address.
func from(t *testing.T, address string, body io.Reader) *http.Request {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body)
	request.RemoteAddr = address
	return request
}

func reviewOf(objects string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"` + up + `","objects":[` + objects + `]}}`
}

// A decoded body takes many times the memory of its bytes: these took 280 MiB and more of the controller's 256.
func TestDecodedConversionReviewsAreBounded(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	h := newHandler(t)
	const code = `"source":"a","runtime":"nodejs22"`
	dense := func(form string) string { return strings.Repeat(form, maxBody/len(form)/2) }
	for name, tc := range map[string]struct{ objects, says string }{
		"empty objects":                     {dense("{},") + "{}", "than 524288 values"},
		"empty objects, as many as fit":     {strings.Repeat("{},", maxObjects+1) + "{}", "more than 10000 objects"},
		"an object of empty ones":           {oldFunction(code+`,"env":[`+strings.Repeat("{},", 200_000)+`{}]`, ""), "an object has more than 4 MiB or 20000 values"},
		"an object of unknown fields":       {oldFunction(code+`,"x":[`+strings.Repeat(`{"":0},`, 100_000)+`{}]`, ""), "an object has more than 4 MiB or 20000 values"},
		"a deeply nested object":            {oldFunction(code+`,"x":`+strings.Repeat(`{"a":`, 101)+`1`+strings.Repeat("}", 101), ""), "nested too deeply"},
		"an object with a long text":        {oldFunction(`"source":"`+strings.Repeat("a", 7<<20)+`","runtime":"nodejs22"`, ""), "an object has more than 4 MiB"},
		"objects that make a long response": {strings.Repeat(oldFunction(code, "")+",", 9_000) + oldFunction(code, ""), ""},
	} {
		var before, after runtimemetrics.MemStats
		runtimemetrics.ReadMemStats(&before)
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, from(t, "10.0.0.9:1", strings.NewReader(reviewOf(tc.objects))))
		runtimemetrics.ReadMemStats(&after)
		require.Contains(t, recorder.Body.String(), tc.says, name)
		if tc.says != "" { // converted objects are garbage collected one by one
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(100), name)
		}
	}
	require.Zero(t, h.memory.Used())
}

func TestAddressHasOneTurnAtATime(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	require.NoError(t, h.turns.Acquire(nil, "10.0.0.9", 1)) // a long turn
	defer h.turns.Release("10.0.0.9", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, from(t, "10.0.0.9:2", strings.NewReader(reviewOf(oldFunction(`"source":"a","runtime":"nodejs22"`, "")))).WithContext(ctx))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
	require.NotEmpty(t, recorder.Header().Get("Retry-After"))
	answer := ask(t, h, up, oldFunction(`"source":"a","runtime":"nodejs22"`, ""))
	require.Equal(t, metav1.StatusSuccess, answer.Result.Status)
}

func TestAFloodOfOneAddressDoesNotLockTheAPIServerOut(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	costly := reviewOf(strings.Repeat(oldFunction(`"source":"a","runtime":"nodejs22"`, "")+",", 999) + oldFunction(`"source":"a","runtime":"nodejs22"`, ""))
	stalled, unstall := io.Pipe() // bodies that do not arrive
	defer func() { _ = unstall.Close() }()
	for i := range 4 * maxRequests {
		var body io.Reader = strings.NewReader(costly)
		if i%2 == 0 {
			body = stalled
		}
		request := from(t, "10.0.0.9:1", body).WithContext(ctx)
		flood.Go(func() { h.ServeHTTP(httptest.NewRecorder(), request) })
	}
	require.Eventually(t, func() bool { return h.turns.Held("10.0.0.9") > 0 && h.requests.Held("10.0.0.9") > 1 }, patient, time.Millisecond)
	for range 10 {
		answer := ask(t, h, up, oldFunction(`"source":"a","runtime":"nodejs22"`, ""))
		require.Equal(t, metav1.StatusSuccess, answer.Result.Status, answer.Result.Message)
		require.LessOrEqual(t, h.requests.Held("10.0.0.9"), int64(maxRequests/2))
	}
}

// Pods have many addresses.
func TestMemoryThatManyAddressesHoldLeavesOneFunctionItsOwn(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	for i := range 64 {
		share := h.memory.Share(strconv.Itoa(i))
		var held int64
		for got := int64(1); got > 0; held += got {
			got = share.Acquire(chunk, chunk)
		}
		defer share.Release(held)
	}
	answer := ask(t, h, up, oldFunction(`"source":"`+strings.Repeat("a", 30<<10)+`","runtime":"nodejs22"`, ""))
	require.Equal(t, metav1.StatusSuccess, answer.Result.Status)
}

func FuzzHandler(f *testing.F) {
	h := newHandler(f)
	f.Add([]byte(`{"request":{"desiredAPIVersion":"` + up + `","objects":[` + oldFunction(`"source":"a","type":"git"`, "") + `]}}`))
	f.Add([]byte(`{"request":{"desiredAPIVersion":"` + back + `","objects":[{"apiVersion":"` + up + `","kind":"Function","spec":{"source":{"inline":null}}}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge}, recorder.Code)
		require.Zero(t, h.memory.Used())
	})
}
