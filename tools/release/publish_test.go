package main

import (
	"context"
	"crypto"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/stretchr/testify/require"
)

// server runs a registry that rejects requests with the status that refuse returns.
func server(t *testing.T, refuse func(*http.Request) int) string {
	t.Helper()
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := refuse(r); status != 0 {
			w.WriteHeader(status)
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(listening.Close)
	return strings.TrimPrefix(listening.URL, "http://") + "/rouse"
}

func nothing(*http.Request) int { return 0 }

func artifacts(t *testing.T, at string) []artifact {
	t.Helper()
	index, err := random.Index(64, 1, 2)
	require.NoError(t, err)
	chart, err := random.Image(64, 1)
	require.NoError(t, err)
	return []artifact{
		{Repository: at + "/rouse", Tag: "0.1.0", Content: index}, {Repository: at + "/charts/rouse", Tag: "0.1.0", Content: chart},
	}
}

func tagged(t *testing.T, artifact artifact) bool {
	t.Helper()
	reference, err := name.NewTag(artifact.Repository + ":" + artifact.Tag)
	require.NoError(t, err)
	_, err = remote.Head(reference)
	return err == nil
}

func digestOf(t *testing.T, artifact artifact) name.Digest {
	t.Helper()
	digest, err := artifact.Content.Digest()
	require.NoError(t, err)
	reference, err := name.NewDigest(artifact.Repository + "@" + digest.String())
	require.NoError(t, err)
	return reference
}

func TestAReleaseIsPulledByItsTagsAndDigests(t *testing.T) {
	t.Parallel()
	at := server(t, nothing)
	all := artifacts(t, at)
	require.NoError(t, destination{}.Push(t.Context(), all, keySigner{}))
	for _, each := range all {
		require.True(t, tagged(t, each))
		found, err := remote.Get(digestOf(t, each))
		require.NoError(t, err)
		want, err := each.Content.Digest()
		require.NoError(t, err)
		require.Equal(t, want, found.Digest)
	}
}

func TestAVersionIsReleasedOnce(t *testing.T) {
	t.Parallel()
	at := server(t, nothing)
	all := artifacts(t, at)
	repositories := []string{all[0].Repository, all[1].Repository}
	require.NoError(t, destination{}.Refuse(t.Context(), repositories, "0.1.0"))
	require.NoError(t, destination{}.Push(t.Context(), all[1:], keySigner{}))
	err := destination{}.Refuse(t.Context(), repositories, "0.1.0")
	require.ErrorContains(t, err, "charts/rouse:0.1.0 is there already")
	require.ErrorContains(t, err, "choose the next one")
	require.NoError(t, destination{}.Refuse(t.Context(), repositories, "0.1.1"))
}

func TestRejectingRegistryIsReportedBeforeTheBuild(t *testing.T) {
	t.Parallel()
	at := server(t, func(*http.Request) int { return http.StatusForbidden })
	err := destination{}.Refuse(t.Context(), []string{at + "/rouse"}, "0.1.0")
	require.ErrorContains(t, err, "docker login")
	require.ErrorContains(t, err, "403")
}

func TestPartiallyPushedReleaseHasNoTag(t *testing.T) {
	t.Parallel()
	isTag := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/0.1.0") }
	for when, refuse := range map[string]func() func(*http.Request) int{
		"the content of the chart is rejected": func() func(*http.Request) int {
			return func(r *http.Request) int {
				if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/charts/") {
					return http.StatusForbidden
				}
				return 0
			}
		},
		"the second tag is rejected": func() func(*http.Request) int {
			var tags atomic.Int32
			return func(r *http.Request) int {
				if r.Method == http.MethodPut && isTag(r) && tags.Add(1) > 1 {
					return http.StatusForbidden
				}
				return 0
			}
		},
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			all := artifacts(t, server(t, refuse()))
			require.Error(t, destination{}.Push(t.Context(), all, keySigner{}))
			for _, each := range all {
				require.False(t, tagged(t, each), each.Repository)
			}
		})
	}
}

func TestSignaturesAreVerifiedByCosign(t *testing.T) {
	password := []byte("secret")
	keys, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return password, nil })
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "cosign.key")
	require.NoError(t, os.WriteFile(file, keys.PrivateBytes, 0o600))
	t.Setenv(passwordVariable, "wrong")
	_, err = newSigner(file)
	require.ErrorContains(t, err, passwordVariable)
	t.Setenv(passwordVariable, string(password))
	signer, err := newSigner(file)
	require.NoError(t, err)

	all := artifacts(t, server(t, nothing))
	require.NoError(t, destination{}.Push(t.Context(), all, signer))
	public, err := cosign.PemToECDSAKey(keys.PublicBytes)
	require.NoError(t, err)
	verifier, err := signature.LoadECDSAVerifier(public, crypto.SHA256)
	require.NoError(t, err)
	for _, each := range all {
		require.NoError(t, verify(t.Context(), digestOf(t, each), verifier))
	}

	other := artifacts(t, all[0].Repository)
	require.NoError(t, destination{}.Push(t.Context(), other, keySigner{}))
	require.Error(t, verify(t.Context(), digestOf(t, other[0]), verifier), "unsigned content must not verify")
}

func verify(ctx context.Context, reference name.Digest, verifier signature.Verifier) error {
	_, _, err := cosign.VerifyImageSignatures(ctx, reference, &cosign.CheckOpts{
		SigVerifier: verifier, ClaimVerifier: cosign.SimpleClaimVerifier, IgnoreTlog: true, Offline: true,
	})
	return err
}

func TestMissingKeyIsReported(t *testing.T) {
	t.Parallel()
	_, err := newSigner(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "KEY: ")
}
