package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAFunctionIsRolledBackToAVersionAndReturned(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	const path = "/api/v1/functions/shop/pricing/rollback"
	got := ask(t, h, http.MethodPost, path, `{"version":"a"}`)
	require.Equal(t, http.StatusOK, got.Code, got.Body)
	require.JSONEq(t, `{"version":"a"}`, got.Body.String())
	require.JSONEq(t, `{"version":"newest"}`, ask(t, h, http.MethodPost, path, `{"version":""}`).Body.String())
	got = ask(t, h, http.MethodPost, path, `{"version":"absent"}`)
	require.Equal(t, http.StatusUnprocessableEntity, got.Code)
	require.Contains(t, got.Body.String(), "there are b, a")
	require.Equal(t, http.StatusBadRequest, ask(t, h, http.MethodPost, path, `{"version":"`+strings.Repeat("x", 300)+`"}`).Code)
	require.Equal(t, []string{"owner rolls shop/pricing back to a", "owner rolls shop/pricing back to "}, home.done)
}

func TestASubscriptionOrAllOfAFunctionArePausedAndResumed(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	got := ask(t, h, http.MethodPost, "/api/v1/subscriptions/shop/other/pause", `{"paused":true}`)
	require.Equal(t, http.StatusOK, got.Code, got.Body)
	require.JSONEq(t, `{"changed":["shop/other"]}`, got.Body.String())
	got = ask(t, h, http.MethodPost, "/api/v1/functions/shop/pricing/pause", `{"paused":false}`)
	require.JSONEq(t, `{"changed":["shop/first"]}`, got.Body.String(), "the second was so already")
	require.Equal(t, []string{"shop/other paused true", "shop/first paused false", "shop/second paused false"}, home.done)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodPost, "/api/v1/subscriptions/shop/absent/pause", `{"paused":true}`).Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodPost, "/api/v1/functions/shop/absent/pause", `{"paused":true}`).Code)
	require.Equal(t, http.StatusBadRequest, ask(t, h, http.MethodPost, "/api/v1/functions/shop/pricing/pause", `{}`).Code)
}

func TestConditionsHaveALevel(t *testing.T) {
	t.Parallel()
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Message: strings.Repeat("é", maxMessage)}
	}
	levels := map[string]string{}
	for _, each := range ConditionsOf([]metav1.Condition{
		condition("Running", metav1.ConditionTrue), condition("BuildReady", metav1.ConditionFalse), condition("ConfigurationReady", metav1.ConditionUnknown),
		condition(stalled, metav1.ConditionTrue),
	}) {
		levels[each.Type] = each.Level
		require.Less(t, len(each.Message), maxMessage+10)
	}
	require.Equal(t, map[string]string{"Running": LevelGood, "BuildReady": LevelBad, "ConfigurationReady": LevelWarning, stalled: LevelBad}, levels)
}

func TestADetailIsBounded(t *testing.T) {
	t.Parallel()
	detail := FunctionDetail{
		Pods: make([]Pod, 1000), Versions: make([]Version, 1000), Happenings: []Happening{{Message: strings.Repeat("x", 1<<20)}},
	}
	detail.bound()
	require.Len(t, detail.Pods, maxShown)
	require.Len(t, detail.Versions, maxShown)
	require.Less(t, len(detail.Happenings[0].Message), maxMessage+10)
}

func TestTheBuildOfAFunctionIsAStreamOfLines(t *testing.T) {
	t.Parallel()
	stream, status := follow(t, serve(t, newHome()), "/api/v1/functions/shop/pricing/build", ownersToken)
	require.Equal(t, http.StatusOK, status)
	var found lineBatch
	stream.next("lines", &found)
	require.Equal(t, "a line of the build", found.Lines[0].Text)
}

func TestFindingsAreKeptForAMinuteByUser(t *testing.T) {
	t.Parallel()
	home := newHome()
	home.findings = make([]Finding, 1000)
	home.findings[0] = Finding{Check: "keda", Level: LevelBad, Message: "KEDA is missing", Remedy: "install it"}
	h := home.handler(t)
	var got examined
	for range 3 {
		require.NoError(t, json.Unmarshal(ask(t, h, http.MethodGet, "/api/v1/health", "").Body.Bytes(), &got))
	}
	require.Equal(t, 1, home.examined)
	require.Len(t, got.Findings, maxFindings)
	require.Equal(t, home.findings[0], got.Findings[0])
	require.WithinDuration(t, time.Now(), got.At, time.Hour)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/api/v1/health", "", header("Authorization", "Bearer "+readersToken)).Code)
	require.Equal(t, 2, home.examined, "another user has other rights")
}

func TestFindingsAreOfTheNamespaceThatIsShown(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	for _, namespace := range []string{"shop", "shop", "store"} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/health", http.NoBody)
		require.NoError(t, h.health(httptest.NewRecorder(), request, User{Name: "somebody", Namespace: namespace}))
	}
	require.Equal(t, 2, home.examined)
}

// draft is a Function and its Subscription.
const draft = `"function":{"namespace":"shop","name":"pricing","runtime":"nodejs22","source":"code","dependencies":"","min":0,"max":3},` +
	`"subscription":{"namespace":"shop","name":"first","source":"store","types":["order.received"],"function":"pricing"}`

func TestADraftIsShownBeforeExactlyThatIsWritten(t *testing.T) {
	t.Parallel()
	home := newHome()
	function, _ := (&proposal{Function: &FunctionDraft{Namespace: "shop", Name: "pricing"}}).edits()
	home.outcome.Texts = []Text{
		{Ref: function[0].Ref, File: "pricing.yaml", Before: "spec:\n  runtime: nodejs20\n  env: [{name: A, value: secret}]\n", After: "spec:\n  runtime: nodejs22\n  env: [{name: A, value: secret}]\n"},
	}
	h := home.handler(t)
	var shown outlook
	got := ask(t, h, http.MethodPost, "/api/v1/drafts", "{"+draft+"}")
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &shown))
	require.Empty(t, home.done, "nothing is written before it was seen")
	require.NotContains(t, got.Body.String(), "secret")
	require.Equal(t, []diffLine{{" ", "spec:"}, {"-", "  runtime: nodejs20"}, {"+", "  runtime: nodejs22"}, {" ", "  env: [{name: A, value: (not shown)}]"}, {" ", ""}}, shown.Objects[0].Diff)

	home.outcome.Texts[0].Before += "# somebody else was here\n"
	got = ask(t, h, http.MethodPost, "/api/v1/drafts", "{"+draft+`,"seen":"`+shown.Digest+`"}`)
	require.Equal(t, http.StatusConflict, got.Code)
	require.Empty(t, home.done)
	require.NoError(t, json.Unmarshal(ask(t, h, http.MethodPost, "/api/v1/drafts", "{"+draft+"}").Body.Bytes(), &shown))
	require.NoError(t, json.Unmarshal(ask(t, h, http.MethodPost, "/api/v1/drafts", "{"+draft+`,"seen":"`+shown.Digest+`"}`).Body.Bytes(), &shown))
	require.True(t, shown.Applied)
	require.Equal(t, []string{"wrote Function shop/pricing and Subscription shop/first"}, home.done)
}

func TestWhatIsRefusedIsNamedByTheFieldOfTheForm(t *testing.T) {
	t.Parallel()
	home := newHome()
	h := home.handler(t)
	problems := func(body string) map[string]string {
		var shown outlook
		got := ask(t, h, http.MethodPost, "/api/v1/drafts", body)
		require.Equal(t, http.StatusOK, got.Code, got.Body)
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &shown))
		require.Empty(t, shown.Digest)
		require.False(t, shown.Applied)
		found := map[string]string{}
		for _, each := range shown.Problems {
			found[each.Field] = each.Message
		}
		return found
	}
	require.Contains(t, problems(`{}`), "")
	bad := problems(`{"function":{"namespace":"Shop","name":"../pricing","runtime":"","source":" ","dependencies":"","min":1,"max":null},` +
		`"subscription":{"namespace":"shop","name":"a/b","source":"","types":[],"function":"x"},"seen":"anything"}`)
	for _, field := range []string{"function.namespace", "function.name", "function.source", "function.max", "subscription.name", "subscription.types"} {
		require.Contains(t, bad, field)
	}
	edits, _ := (&proposal{Subscription: &SubscriptionDraft{Namespace: "shop", Name: "first"}}).edits()
	home.outcome.Refusals = []Refusal{
		{Ref: Ref{KindFunction, edits[0].NamespacedName}, Path: "spec.scaleConfig.minReplicas", Message: "is negative"},
		{Ref: edits[0].Ref, Path: "spec.types[0]", Message: "is no type"},
		{Ref: edits[0].Ref, Path: "spec.delivery", Message: "elsewhere"},
	}
	require.Equal(t, map[string]string{"function.min": "is negative", "subscription.types": "is no type", "": "elsewhere"},
		problems("{"+draft+`,"seen":"anything"}`))
	require.Empty(t, home.done)
}

func TestASubscriptionKeepsItsSinkAndIsTakenFromNoOtherFunction(t *testing.T) {
	t.Parallel()
	subscription := SubscriptionDraft{Namespace: "shop", Name: "first", Types: []string{"a"}, Function: "pricing"}
	written := func(sink string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"sink": sink}}}
	}
	edit := Edit{Fields: subscription.fields()}
	require.Nil(t, subscription.keepSink(&edit, written("http://pricing.shop.svc.cluster.local:8080/path")))
	require.Equal(t, "http://pricing.shop.svc.cluster.local:8080/path", edit.Fields["spec"].(map[string]any)["sink"])
	require.NotNil(t, subscription.keepSink(&edit, written("http://other.shop.svc.cluster.local")))

	home := newHome()
	home.written["Subscription shop/first"] = written("https://example.com")
	got := ask(t, home.handler(t), http.MethodPost, "/api/v1/drafts", "{"+draft+"}")
	require.Contains(t, got.Body.String(), "leads to another sink")
}

func TestAFormBeginsWithWhatIsWritten(t *testing.T) {
	t.Parallel()
	home := newHome()
	home.written["Function shop/pricing"] = &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "pricing"},
		"spec": map[string]any{
			"runtime": "nodejs22", "env": []any{map[string]any{"name": "A", "value": "secret"}},
			"source":      map[string]any{"inline": map[string]any{"source": "code", "dependencies": "{}"}},
			"scaleConfig": map[string]any{"minReplicas": int64(0), "maxReplicas": int64(3)},
		},
	}}
	h := home.handler(t)
	got := ask(t, h, http.MethodGet, "/api/v1/functions/shop/pricing/draft", "")
	require.JSONEq(t, `{"function":{"namespace":"shop","name":"pricing","runtime":"nodejs22","source":"code","dependencies":"{}","min":0,"max":3},
		"subscriptions":[{"namespace":"shop","name":"first","source":"store","types":["order.received"],"function":"pricing"},
		{"namespace":"shop","name":"second","source":"","types":null,"function":"pricing"}]}`, got.Body.String())
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/api/v1/functions/shop/absent/draft", "").Code)
}

func TestValuesOfVariablesAreInNoShownYAML(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"spec: {env: [{name: A, value: secret}]}", "spec:\n  env:\n  # once secret\n  - name: A # secret\n    value: secret\n  - name: B\n    value: |\n      secret\n",
		"metadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{\"env\":[{\"value\":\"secret\"}]}'\n",
		"spec:\n  env: &all\n  - {name: A, value: &one secret}\nother: *one\n",
	} {
		shown, err := withoutValues(text)
		require.NoError(t, err)
		require.NotContains(t, shown, "secret", text)
	}
	_, err := withoutValues("a: [")
	require.Error(t, err, "what cannot be read is not shown")
}
