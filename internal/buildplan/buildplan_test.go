package buildplan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/language"
)

func TestTagDependsOnlyOnTheInputsOfTheImage(t *testing.T) {
	t.Parallel()
	base := func() Plan {
		return Plan{
			Function: "shop/price", Owner: "1f0c", Runtime: "nodejs22", Base: "runtime:1", Dependencies: "{}", Target: "registry/shop-price:1",
			Git: &Git{URL: "https://example.org/shop.git", Reference: "main", Commit: "abc", BaseDir: "price"},
		}
	}
	for name, tc := range map[string]struct {
		change func(*Plan)
		same   bool
	}{
		"nothing":                {func(*Plan) {}, true},
		"the target":             {func(p *Plan) { p.Target = "other/shop-price:2" }, true},
		"the Function":           {func(p *Plan) { p.Function = "shop/other" }, true},
		"the size limit":         {func(p *Plan) { p.MaxSize = 1 }, true},
		"the name of the branch": {func(p *Plan) { p.Git.Reference = "release" }, true},
		"slashes of the baseDir": {func(p *Plan) { p.Git.BaseDir = "/price/ " }, true},
		"blanks at the end":      {func(p *Plan) { p.Dependencies = "{}\n" }, true},
		"the owner":              {func(p *Plan) { p.Owner = "2a1b" }, false},
		"the commit":             {func(p *Plan) { p.Git.Commit = "abd" }, false},
		"the baseDir":            {func(p *Plan) { p.Git.BaseDir = "prices" }, false},
		"the dependencies":       {func(p *Plan) { p.Dependencies = `{"dependencies":{}}` }, false},
		"the runtime":            {func(p *Plan) { p.Runtime = "nodejs24" }, false},
		"the runtime's image":    {func(p *Plan) { p.Base = "runtime:2" }, false},
		"the source":             {func(p *Plan) { p.Source = "x" }, false},
		"the files":              {func(p *Plan) { p.FilesDigest = "abc" }, false},
		"the files' content":     {func(p *Plan) { p.Files = map[string][]byte{"a": nil} }, true}, // which the digest identifies
		"where a part ends":      {func(p *Plan) { p.Runtime, p.Base = "nodejs22r", "untime:1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := base()
			tc.change(&changed)
			require.Equal(t, tc.same, Tag(base()) == Tag(changed))
		})
	}
}

func TestPlanRoundTripsThroughItsFile(t *testing.T) {
	t.Parallel()
	plan := Plan{Function: "a/b", Runtime: "python314", Base: "x", Git: &Git{URL: "u", Commit: "c"}, MaxSize: 7, Insecure: true}
	text, err := EncodePlan(plan)
	require.NoError(t, err)
	decoded, err := DecodePlan(text)
	require.NoError(t, err)
	require.Equal(t, plan, decoded)
	require.Equal(t, byte('{'), text[0], "a small plan can be read")

	plan.Source = strings.Repeat("const price = 42\n", 100_000)
	text, err = EncodePlan(plan)
	require.NoError(t, err)
	require.Less(t, len(text), 64<<10)
	decoded, err = DecodePlan(text)
	require.NoError(t, err)
	require.Equal(t, plan, decoded)
}

func TestResultAlwaysFitsATerminationMessage(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]Result{
		"a long log":     {Reason: language.InstallFailed, Message: "short", Log: strings.Repeat("ä \"quoted\" line\n", 1000) + "the end"},
		"a long line":    {Reason: language.InstallFailed, Message: "short", Log: strings.Repeat("é", 9000) + "the end"},
		"a long message": {Reason: language.InstallFailed, Message: strings.Repeat("é", 9000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := EncodeResult(result)
			require.NoError(t, err)
			require.LessOrEqual(t, len(text), maxResult)
			decoded, err := DecodeResult(string(text))
			require.NoError(t, err)
			require.Equal(t, language.InstallFailed, decoded.Reason)
			require.Equal(t, result.Log != "", strings.HasSuffix(decoded.Log, "the end"), decoded.Log)
		})
	}
}

func TestIsTagRecognizesTagsOfPlans(t *testing.T) {
	t.Parallel()
	ours := Tag(Plan{Runtime: "nodejs22"})
	for tag, want := range map[string]bool{
		ours: true, ours + "-0123abcd": true, "latest": false, "": false, ours[:40]: false, ours + "-x": false, "x" + ours: false,
	} {
		require.Equal(t, want, IsTag(tag), tag)
	}
}

func TestCopyTagHoldsTheOriginalsIdentifierAndTheCopysDigest(t *testing.T) {
	t.Parallel()
	long, digest := strings.Repeat("v", 128), "sha256:"+strings.Repeat("0f", 32)
	for _, identifier := range []string{"v2", "2.0-rc1", "sha256:" + strings.Repeat("a", 64), long, "latest"} {
		tag := CopyTag(identifier, digest)
		require.LessOrEqual(t, len(tag), 128, "the longest tag of a registry")
		require.True(t, IsCopyOf(tag, identifier), tag)
		require.False(t, IsCopyOf(tag, "v"), tag)
		promised, ok := CopyDigest(tag)
		require.True(t, ok)
		require.Equal(t, digest, promised)
	}
	require.False(t, IsCopyOf("v2-rc1-amd64", "v2"))
	require.False(t, IsCopyOf("v2", "v2"))
	for _, tag := range []string{"v2", "v2-amd64", strings.Repeat("a", 64), "v2-" + strings.Repeat("A", 64), ""} {
		_, ok := CopyDigest(tag)
		require.False(t, ok, tag)
	}
}
