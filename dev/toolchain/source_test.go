package toolchain

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/testing/gittest"
)

func fromGit(runtime, url, reference string, auth *v1alpha2.RepositoryAuth) manifest.Function {
	return inline(runtime, "", func(fn *v1alpha2.Function) {
		fn.Spec.Source = v1alpha2.Source{GitRepository: &v1alpha2.GitRepositorySource{
			URL: url, Reference: reference, BaseDir: "/functions/price/", Auth: auth,
		}}
	})
}

func TestSourceFromGitFollowsItsBranchAndSurvivesWithoutTheRepository(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	answer := func(text string) map[string]string {
		return map[string]string{
			"functions/price/lib/text.js":  "module.exports = '" + text + "'",
			"functions/price/link.js":      gittest.Link + "lib/text.js",
			"functions/price/package.json": `{"main": "index.js"}`,
			"functions/price/index.js":     "exports.main = () => require('./link.js') + require('sdk').getFunctionName()",
		}
	}
	repository.Commit(t, "main", answer("one "))
	server := repository.HTTP(t, "me", "word")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "login"},
		Data:       map[string][]byte{"username": []byte("me"), "password": []byte("word")},
	}
	fixture := func() *fixture {
		w := newFixture(t)
		w.in.Secrets = []*corev1.Secret{secret}
		return w
	}
	fn := fromGit("nodejs22", server.Address(), "main", &v1alpha2.RepositoryAuth{Type: "basic", SecretName: "login"})
	first := fixture()
	launch := first.launch(t, fn)
	require.Equal(t, "one price", start(t, launch).get(t))

	moved := repository.Commit(t, "main", answer("two "))
	require.Equal(t, launch, first.launch(t, fn), "a reference is resolved once")
	fn.Annotations = map[string]string{v1alpha2.AnnotationCheckGit: "now"}
	require.Equal(t, "two price", start(t, first.launch(t, fn)).get(t))
	require.Contains(t, first.progress(), "fetching commit "+moved[:10])

	server.Close()
	late := fixture()
	require.Equal(t, "two price", start(t, late.launch(t, fn)).get(t))
	require.Contains(t, late.progress(), "the repository does not answer; main is taken for the commit that it was last, "+moved[:10])
	require.NotContains(t, late.progress(), "word")

	fn.Spec.Source.GitRepository.Reference = moved
	require.Equal(t, "two price", start(t, fixture().launch(t, fn)).get(t), "a commit needs no repository")
	fn.Spec.Source.GitRepository.Reference = "never-seen"
	require.EqualValues(t, "SourceUnreachable", fixture().refused(t, fn).Reason)
}

func TestUnusableRepositoryIsReportedWithAdvice(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	repository.Commit(t, "main", map[string]string{"functions/price/readme.md": "nothing"})
	server := repository.HTTP(t, "", "")
	for name, tc := range map[string]struct {
		fn     manifest.Function
		reason Reason
		says   string
	}{
		"no handler": {fromGit("python312", server.Address(), "main", nil), "SourceInvalid", "there is no handler.py in the directory functions/price"},
		"no branch":  {fromGit("nodejs22", server.Address(), "mein", nil), "SourceUnavailable", `no branch or tag "mein"`},
		"no Secret": {
			fromGit("nodejs22", server.Address(), "main", &v1alpha2.RepositoryAuth{Type: "basic", SecretName: "login"}),
			ReferenceMissing, "there is no Secret shop/login",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := newFixture(t).refused(t, tc.fn)
			require.Equal(t, tc.reason, failed.Reason, failed.Message)
			require.Contains(t, failed.Message, "shop/price.yaml:3: ")
			require.Contains(t, failed.Message, tc.says)
		})
	}
}
