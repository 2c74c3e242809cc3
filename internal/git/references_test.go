package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/testing/gittest"
)

const manyReferences = 250_000

func TestRequestedReferencesAreFoundAmong250000(t *testing.T) {
	t.Parallel()
	skipStrict(t, "ssh://")
	repository := gittest.New(t)
	commit := repository.Commit(t, "main", files)
	repository.Tag(t, "v1", "main")
	repository.Many(t, commit, manyReferences)
	private, public := gittest.Key(t)
	key, err := ParseSecret(AuthKey, "", map[string][]byte{"key": private})
	require.NoError(t, err)
	for name, from := range map[string]Repository{
		"HTTP": {URL: repository.HTTP(t, "", "").Address()}, "SSH": {URL: repository.SSH(t, public).URL, Credentials: key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := client(t, nil).List(t.Context(), from, "main", "v1", "bulk/0123456", "mian", "release")
			require.NoError(t, err)
			require.Len(t, found.commits, 3)
			for _, reference := range []string{"main", "v1", "bulk/0123456"} {
				resolved, err := found.Resolve(reference)
				require.NoError(t, err)
				require.Equal(t, commit, resolved, "of a tag the commit that it points to")
			}
			_, err = found.Resolve("mian")
			require.ErrorContains(t, err, `no branch or tag "mian", but main. Correct`)
			_, err = found.Resolve("release")
			require.ErrorContains(t, err, ", but bulk/0000000, bulk/0000001, bulk/0000002, bulk/0000003, bulk/0000004, .... Correct")
			into := t.TempDir()
			require.NoError(t, client(t, nil).Fetch(t.Context(), from, Commit{Hash: commit, Reference: "main", BaseDir: "price/lib"}, into))
			require.Equal(t, map[string]string{"deep.js": "deep"}, read(t, into))
		})
	}
}

// It is not parallel, since it measures the memory of the process.
func TestEightListsOf250000ReferencesTakeFewMegabytes(t *testing.T) { //nolint:paralleltest // see above
	hash := strings.Repeat("a", hashSize)
	text := []byte(packet("# service=git-upload-pack\n") + "0000" + packet(hash+" HEAD\x00side-band-64k\n"))
	for i := range manyReferences {
		text = append(text, packet(fmt.Sprintf("%s refs/heads/feature/%07d\n", hash, i))...)
	}
	sent, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = w.Write(text)
		_ = http.NewResponseController(w).Flush()
		sent <- struct{}{}
		select {
		case <-end:
		case <-request.Context().Done():
		}
		_, _ = io.WriteString(w, "0000")
	}))
	t.Cleanup(server.Close)
	c, before := client(t, nil), heap()
	type answer struct {
		found References
		err   error
	}
	answers := make(chan answer)
	for range 8 {
		go func() {
			found, err := c.List(t.Context(), Repository{URL: server.URL + "/shop.git"}, "main")
			answers <- answer{found, err}
		}()
	}
	for range 8 {
		<-sent
	}
	require.Less(t, heap()-before, int64(16<<20), "the list must not be held in memory")
	close(end)
	for range 8 {
		got := <-answers
		require.NoError(t, got.err)
		require.Empty(t, got.found.commits)
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestListingReadsPacketsInAnyChunks(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("a", hashSize)
	prefix, first := packet("# service=git-upload-pack\n")+"0000", packet(hash+" HEAD\x00side-band-64k\n")
	main := packet(hash + " refs/heads/main\n")
	for name, tc := range map[string]struct {
		text  string
		found bool
		err   bool
	}{
		"over HTTP":                    {prefix + first + main + "0000", true, false},
		"over SSH":                     {first + main + "0000", true, false},
		"wanted in the first line":     {packet(hash+" refs/heads/main\x00side-band-64k\n") + "0000", true, false},
		"without line ends":            {packet(hash+" HEAD\x00side-band-64k") + packet(hash+" refs/heads/main") + "0000", true, false},
		"of a shallow repository":      {first + main + packet("shallow "+hash+"\n") + "0000", true, false},
		"with an empty packet":         {first + "0004" + main + "0000", false, true},
		"empty":                        {packet(strings.Repeat("0", hashSize)+" capabilities^{}\x00side-band-64k\n") + "0000", false, false},
		"without capabilities":         {packet(hash+" HEAD\n") + main + "0000", false, true},
		"that is a web page":           {"<!DOCTYPE html>", false, true},
		"that ends in a packet":        {first + main[:20], false, true},
		"that ends in a length":        {first + "00", false, true},
		"with a malformed line":        {first + packet("stolen\n") + main + "0000", false, true},
		"with an error":                {first + packet("ERR no\n"), false, true},
		"with a packet that is longer": {first + "fff5", false, true},
		"that is empty":                {"", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, from := range []io.Reader{strings.NewReader(tc.text), iotest.OneByteReader(strings.NewReader(tc.text)), iotest.DataErrReader(strings.NewReader(tc.text))} {
				wanted := newSelection([]string{"main"})
				advertised := packp.NewAdvRefs()
				err := advertised.Decode(newListing(from, wanted))
				require.Equal(t, tc.err, err != nil, "%v", err)
				if err == nil {
					require.Equal(t, tc.found, wanted.commits[branches+"main"] == hash)
				}
				require.LessOrEqual(t, len(advertised.References), 1)
			}
		})
	}
}

func FuzzListing(f *testing.F) {
	hash := strings.Repeat("a", hashSize)
	f.Add([]byte(packet(hash+" HEAD\x00side-band-64k\n") + packet(hash+" refs/tags/main^{}\n") + "0000"))
	f.Add([]byte("0004fff00001"))
	f.Fuzz(func(t *testing.T, text []byte) {
		wanted := newSelection([]string{"main"})
		handedOn, err := io.ReadAll(newListing(bytes.NewReader(text), wanted))
		require.NoError(t, err)
		require.LessOrEqual(t, len(handedOn), len(text))
		for name, commit := range wanted.commits {
			require.Contains(t, []string{branches + "main", tags + "main"}, name)
			require.True(t, IsCommit(commit))
		}
	})
}

func TestAnEncryptedKeyIsDecryptedOnceForAllRequests(t *testing.T) {
	t.Parallel()
	skipStrict(t, "ssh://")
	repository := gittest.New(t)
	repository.Commit(t, "main", files)
	sealed, err := encrypted()
	require.NoError(t, err)
	credentials, err := ParseSecret(AuthKey, "", secretOf(sealed, passphrase))
	require.NoError(t, err)
	signer, err := credentials.key.decrypt()
	require.NoError(t, err)
	from := Repository{URL: repository.SSH(t, signer.PublicKey()).URL, Credentials: credentials}
	c := client(t, nil)
	_, err = c.List(t.Context(), from, "main")
	require.NoError(t, err)
	first := credentials.key.opened.Load()
	require.NotNil(t, first)
	_, err = c.List(t.Context(), from, "main")
	require.NoError(t, err)
	require.Same(t, first, credentials.key.opened.Load())
}

func TestErrorForAWrongPassphraseNamesTheRemedy(t *testing.T) {
	t.Parallel()
	skipStrict(t, "ssh://")
	credentials, err := ParseSecret(AuthKey, "", secretOf(costly(1), "wrong"))
	require.NoError(t, err)
	_, err = client(t, nil).List(t.Context(), Repository{URL: "ssh://git@127.0.0.1:1/shop.git", Credentials: credentials})
	requireKind(t, Secret, err)
	require.ErrorContains(t, err, "'key' is not a usable private key: the passphrase in 'password' does not decrypt it")
	require.False(t, IsTransient(err))
}

func TestWaitForADecryptionEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	skipStrict(t, "ssh://")
	credentials, err := ParseSecret(AuthKey, "", secretOf(costly(1), passphrase))
	require.NoError(t, err)
	c := client(t, nil)
	require.NoError(t, c.unlocking.Acquire(t.Context().Done(), "hostile", 1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.List(ctx, Repository{URL: "ssh://git@127.0.0.1:1/shop.git", Credentials: credentials, Owner: "quiet"})
	requireKind(t, Unreachable, err)
	require.Nil(t, credentials.key.opened.Load())
	_, err = c.unlock(ctx, "quiet", credentials.key)
	require.ErrorIs(t, err, fair.ErrStopped)
}

// enormous is a host key that no client can verify in time.
type enormous struct{ ssh.Signer }

// PublicKey implements ssh.Signer.
func (e enormous) PublicKey() ssh.PublicKey { return enormousPublic{e.Signer.PublicKey()} }

// Sign implements ssh.Signer.
func (e enormous) Sign(random io.Reader, _ []byte) (*ssh.Signature, error) {
	blob := make([]byte, 65536/8)
	_, err := random.Read(blob)
	return &ssh.Signature{Format: ssh.KeyAlgoRSASHA256, Blob: blob}, err
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (e enormous) SignWithAlgorithm(random io.Reader, data []byte, _ string) (*ssh.Signature, error) {
	return e.Sign(random, data)
}

type enormousPublic struct{ ssh.PublicKey }

// Type implements ssh.PublicKey.
func (enormousPublic) Type() string { return ssh.KeyAlgoRSA }

// Marshal implements ssh.PublicKey.
func (enormousPublic) Marshal() []byte {
	n := new(big.Int).SetBit(big.NewInt(1), 65535, 1)
	return ssh.Marshal(struct {
		Type string
		E, N *big.Int
	}{ssh.KeyAlgoRSA, big.NewInt(65537), n})
}

func TestHostKeyOf64KbitIsRejected(t *testing.T) {
	t.Parallel()
	skipStrict(t, "ssh://")
	private, _ := gittest.Key(t)
	signer, err := ssh.ParsePrivateKey(private)
	require.NoError(t, err)
	key, err := ParseSecret(AuthKey, "", map[string][]byte{"key": private})
	require.NoError(t, err)
	began := time.Now()
	_, err = client(t, nil).List(t.Context(), Repository{URL: serveSSHBy(t, enormous{signer}, ""), Credentials: key})
	requireKind(t, Unreadable, err)
	require.ErrorContains(t, errors.Unwrap(err), "rsa modulus too large")
	require.Less(t, time.Since(began), handshakeTimeout)
}

func TestErrorForAMissingReferenceSuggestsSimilarNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		references []string
		asked      string
		want       string
	}{
		"two letters in the wrong order": {[]string{"refs/heads/main", "refs/heads/develop"}, "mian", ", but main. "},
		"another case":                   {[]string{"refs/heads/Main", "refs/heads/next"}, "main", ", but Main. "},
		"a tag":                          {[]string{"refs/heads/main", "refs/tags/v1.2.3"}, "v1.2.4", ", but v1.2.3. "},
		"the nearest first":              {[]string{"refs/heads/release-10", "refs/heads/release-2", "refs/heads/main"}, "release-1", ", but release-10, release-2. "},
		"a branch and a tag of one name": {[]string{"refs/heads/v1", "refs/tags/v1"}, "v2", ", but v1. "},
		"nothing like it":                {[]string{"refs/heads/main", "refs/heads/develop"}, "release", ", but develop, main. "},
		"many":                           {[]string{"refs/heads/a", "refs/heads/b", "refs/heads/c", "refs/heads/d", "refs/heads/e", "refs/heads/f"}, "release", ", but a, b, c, d, e, .... "},
		"pull requests are not branches": {[]string{"refs/pull/1/head"}, "release", `"release". `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := newSelection([]string{tc.asked})
			for i, reference := range tc.references {
				seen.see([]byte(reference), fmt.Appendf(nil, "%040d", i+1))
			}
			_, err := seen.references().Resolve(tc.asked)
			require.ErrorContains(t, err, tc.want+"Correct spec.source.gitRepository.reference")
		})
	}
}

func TestDistanceCountsLettersThatDiffer(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{
		{"main", "main"}: 0, {"main", "MAIN"}: 0, {"main", "man"}: 1, {"man", "main"}: 1, {"main", "mian"}: 2, {"abc", "xyz"}: 3, {"a", "abcdefgh"}: 4, {"", ""}: 0,
	} {
		require.Equal(t, want, distance(pair[0], pair[1]), "%v", pair)
	}
}

func TestHintsAreLimitedToAFewReferences(t *testing.T) {
	t.Parallel()
	var asked []string
	for i := range maxHints + 1 {
		asked = append(asked, fmt.Sprintf("release-%d", i))
	}
	seen := newSelection(asked)
	for _, name := range []string{"main", "release-x"} {
		seen.see([]byte(branches+name), fmt.Appendf(nil, "%040d", 1))
	}
	_, err := seen.references().Resolve("release-0")
	require.ErrorContains(t, err, ", but release-x. ")
	_, err = seen.references().Resolve(asked[maxHints])
	require.ErrorContains(t, err, ", but main, release-x. ")
}
