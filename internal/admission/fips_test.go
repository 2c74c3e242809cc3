package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestFIPSRefusesWhatNoValidatedModuleDoes(t *testing.T) {
	t.Parallel()
	const runtimeField, urlField = "spec.runtime", "spec.source.gitRepository.url"
	for name, tc := range map[string]struct {
		runtime v1alpha2.Runtime
		url     string
		field   string // empty: it is accepted
		says    string
	}{
		"inline on a current Node.js":        {runtime: "nodejs24"},
		"inline on a current Python":         {runtime: "python314"},
		"inline in Go":                       {runtime: "go126"},
		"Python 3.12":                        {"python312", "", runtimeField, "python312 is refused in FIPS mode, since there is no base image with a validated module for it. Use python314"},
		"Node.js 20":                         {"nodejs20", "", runtimeField, "Use nodejs22 or nodejs24 or nodejs26"},
		"a runtime that there is not":        {runtime: "ruby33"},
		"a repository over HTTPS":            {runtime: "nodejs24", url: "https://example.com/repo.git"},
		"a repository over HTTP":             {runtime: "nodejs24", url: "http://example.com/repo.git"},
		"a scheme in capitals":               {runtime: "nodejs24", url: "HTTPS://example.com/repo.git"},
		"a repository over SSH":              {"nodejs24", "ssh://git@example.com/repo.git", urlField, "Use an https:// URL"},
		"a scheme of SSH in capitals":        {"nodejs24", "SSH://git@example.com/repo.git", urlField, "Use an https:// URL"},
		"Git's short form of SSH":            {"nodejs24", "git@example.com:repo.git", urlField, "Git over SSH is refused in FIPS mode"},
		"the short form without a user":      {"nodejs24", "example.com:repo.git", urlField, "Git over SSH is refused in FIPS mode"},
		"the short form behind a blank":      {"nodejs24", " git@example.com:repo.git", urlField, "Git over SSH is refused in FIPS mode"},
		"a short form that looks like HTTPS": {"nodejs24", "git@https:/repo.git", urlField, "Git over SSH is refused in FIPS mode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := &v1alpha2.Function{}
			fn.Spec.Runtime = tc.runtime
			if tc.url != "" {
				fn.Spec.Source.GitRepository = &v1alpha2.GitRepositorySource{URL: tc.url}
			}
			problems := FIPS(fn)
			if tc.field == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Equal(t, tc.field, problems[0].Field)
			require.Contains(t, problems[0].Text, tc.says)
		})
	}
	both := &v1alpha2.Function{}
	both.Spec.Runtime, both.Spec.Source.GitRepository = "python312", &v1alpha2.GitRepositorySource{URL: "git@example.com:repo.git"}
	require.Len(t, FIPS(both), 2)
}
