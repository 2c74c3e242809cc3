package dependencies

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

const manifest = "spec.source.inline.dependencies"

func inImage(t *testing.T, runtime string) Request {
	t.Helper()
	language, err := languages.Of(runtime)
	require.NoError(t, err)
	return Request{Language: language, Manifest: manifest, Site: Image()}
}

// The files are output of npm 11 and of pip 23 and 24.
func TestANPMFailureHasAReasonAndAdvice(t *testing.T) {
	t.Parallel()
	for file, tc := range map[string]struct {
		reason language.Reason
		says   []string
	}{
		"ejson":        {language.InvalidDependencies, []string{manifest + " is not JSON", "Expected double-quoted property name in JSON at position 36"}},
		"einvalidname": {language.InvalidDependencies, []string{`Invalid package name "Lo Dash!"`}},
		"einvalidtag":  {language.InvalidDependencies, []string{`"lodash@not a version!"`}},
		"eresolve":     {language.InvalidDependencies, []string{"contradict each other", `peer react@"^18.0.0" from react-dom@18.0.0`}},
		"eusage":       {language.InvalidDependencies, []string{"lock file's lodash@4.17.20 does not satisfy lodash@4.17.21", "commit the lock file"}},
		"e404":         {language.PackageNotFound, []string{"rouse-no-such-package-at-all@1.0.0", manifest, "serverless-package-registry-config"}},
		"e404scoped":   {language.PackageNotFound, []string{"@rouse-private/nothing@1.0.0"}},
		"etarget":      {language.PackageNotFound, []string{"fits lodash@99.0.0; correct"}},
		"e401":         {language.PackageForbidden, []string{"refuses access; put credentials into the Secret serverless-package-registry-config"}},
		"e403":         {language.PackageForbidden, []string{"refuses access to http://registry.example.org/lodash"}},
		"e503":         {language.PackagesUnreachable, []string{"does not answer to http://registry.example.org/lodash (E503)"}},
		"notfoundhost": {language.PackagesUnreachable, []string{"https://registry.invalid/lodash (ENOTFOUND)"}},
		"refused":      {language.PackagesUnreachable, []string{"http://registry.example.org/lodash (ECONNREFUSED)"}},
		"tls":          {language.PackagesUnreachable, []string{"https://registry.example.org/lodash", "caBundle"}},
		"git":          {language.PackagesUnreachable, []string{"Could not resolve host: github.invalid"}},
		"nopython":     {language.CompilerMissing, []string{"microtime has to be compiled", "runtimeImageOverride"}},
		"nomake":       {language.CompilerMissing, []string{"microtime has to be compiled"}},
		"gyp":          {language.CompilerMissing, []string{"microtime has to be compiled"}},
		"bigheap":      {language.OutOfMemory, []string{"build profile"}},
		"enospc":       {language.ImageTooLarge, []string{"do not fit into the build's volume"}},
		"badplatform":  {language.InstallFailed, []string{"Unsupported platform for fsevents@2.3.3"}},
		"eintegrity":   {language.InstallFailed, []string{"not what the lock file says"}},
		"nogit":        {language.InstallFailed, []string{"the runtime's image has no git"}},
		"script":       {language.InstallFailed, []string{"a script of package.json failed: exit 3"}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "npm", file+".txt"))
			require.NoError(t, err)
			ended := Ended{Output: string(text), Err: errors.New("exit status 1")}
			requireFailure(t, inImage(t, "nodejs22").failed(ended, ""), tc.reason, tc.says)
		})
	}
}

func TestAPipFailureHasAReasonAndAdvice(t *testing.T) {
	t.Parallel()
	for file, tc := range map[string]struct {
		reason language.Reason
		says   []string
	}{
		"invalid":     {language.InvalidDependencies, []string{manifest, "Invalid requirement: 'requests=2.0' (from line 1 of requirements.txt)"}},
		"invalid2":    {language.InvalidDependencies, []string{"'this is not a requirement'"}},
		"missingfile": {language.InvalidDependencies, []string{"Could not open requirements file", "other.txt"}},
		"conflict":    {language.InvalidDependencies, []string{"contradict each other", "requests 2.31.0 depends on urllib3<3 and >=1.21.1"}},
		"nopkg":       {language.PackageNotFound, []string{"there is no package rouse-no-such-package-at-all==1.0", "serverless-package-registry-config"}},
		"nover":       {language.PackageNotFound, []string{"fits requests==99.0 (the newest is 2.34.2); correct " + manifest}},
		"python":      {language.PackageNotFound, []string{"pandas==3.0.0 for this version of Python"}},
		"e401":        {language.PackageForbidden, []string{"http://registry.example.org/simple/requests/", "serverless-package-registry-config"}},
		"e403":        {language.PackageForbidden, []string{"http://registry.example.org/simple/requests/"}},
		"e503":        {language.PackagesUnreachable, []string{"http://registry.example.org/simple/requests/", "tried again"}},
		"refused":     {language.PackagesUnreachable, []string{"does not answer (http://registry.example.org/simple/requests/)"}},
		"dns":         {language.PackagesUnreachable, []string{"https://registry.invalid/simple/requests/"}},
		"tls":         {language.PackagesUnreachable, []string{"certificate", "caBundle"}},
		"gitreq":      {language.PackagesUnreachable, []string{"Could not resolve host: github.invalid"}},
		"nogcc":       {language.CompilerMissing, []string{"netifaces has to be compiled", "runtimeImageOverride"}},
		"nogcc313":    {language.CompilerMissing, []string{"netifaces has to be compiled"}},
		"rust":        {language.CompilerMissing, []string{"orjson has to be compiled"}},
		"nogit":       {language.InstallFailed, []string{"the runtime's image has no git"}},
		"hashes":      {language.InstallFailed, []string{"not what its hash says"}},
		"broken":      {language.InstallFailed, []string{"RuntimeError: no way"}},
		"nopip":       {language.InstallFailed, []string{"the runtime's image has no pip"}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "pip", file+".txt"))
			require.NoError(t, err)
			output, log, _ := strings.Cut(string(text), "--- log\n")
			ended := Ended{Output: output, Err: errors.New("exit status 1")}
			requireFailure(t, inImage(t, "python312").failed(ended, log), tc.reason, tc.says)
		})
	}
}

func requireFailure(t *testing.T, failed *Failure, reason language.Reason, says []string) {
	t.Helper()
	require.Equal(t, reason, failed.Reason, failed.Message)
	for _, part := range says {
		require.Contains(t, failed.Message, part)
	}
	require.NotContains(t, failed.Message, "  ", "a part of the message is missing")
	require.NotContains(t, failed.Message, ": ;")
	require.NotEmpty(t, failed.Log)
}

func TestPackageManagerKilledByTheKernelRanOutOfMemory(t *testing.T) {
	t.Parallel()
	ended := Ended{Output: "Collecting pandas", Killed: true}
	requireFailure(t, inImage(t, "python312").failed(ended, ""), language.OutOfMemory, []string{"build profile"})
}

func TestTheLogIsTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	var kept tail
	for range 10_000 {
		_, err := kept.Write([]byte("a line of fifty characters, one after the other..\n"))
		require.NoError(t, err)
	}
	_, err := kept.Write([]byte("the end"))
	require.NoError(t, err)
	require.Len(t, kept.String(), tailSize)
	require.Less(t, kept.text.Len(), 2*tailSize+100)
	log := lastLines(kept.String(), logLines)
	require.True(t, strings.HasSuffix(log, "\nthe end"), log)
	require.Equal(t, logLines-1, strings.Count(log, "\n"))
}
