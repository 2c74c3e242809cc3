package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	isc = `Copyright (c) 2026 Somebody

Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided that the
above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY
DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION,
ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`
	agpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU Affero General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU Affero General Public License for more details.

You should have received a copy of the GNU Affero General Public License along with this program. If not, see <https://www.gnu.org/licenses/>.
`
	// A licence that is not known.
	own = "You may use this on Tuesdays. On other days ask the author, who answers letters by hand and in verse, if at all.\n"
)

// program makes a module with one dependency, which has these files beside its packages.
func program(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"main/go.mod":        "module example.com/main\n\ngo 1.26\n\nrequire example.com/used v1.0.0\n\nreplace example.com/used v1.0.0 => ../used\n",
		"main/main.go":       "package main\n\nimport \"example.com/used/inner\"\n\nfunc main() { inner.Do() }\n",
		"used/go.mod":        "module example.com/used\n\ngo 1.26\n",
		"used/inner/do.go":   "package inner\n\nfunc Do() {}\n",
		"used/unused/not.go": "package unused\n",
	}
	for name, text := range files {
		all["used/"+name] = text
	}
	for name, text := range all {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return filepath.Join(root, "main")
}

func TestUnknownForbiddenOrMissingLicenceIsReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string // empty: allowed
	}{
		"permissive":                            {files: map[string]string{"LICENSE": isc, "NOTICE": "by Somebody"}},
		"above the package that is used":        {files: map[string]string{"inner/LICENCE.txt": isc}},
		"none":                                  {want: []string{"example.com/used", "has no licence"}},
		"only a notice":                         {files: map[string]string{"NOTICE": "by Somebody"}, want: []string{"has no licence"}},
		"beside an unused package":              {files: map[string]string{"unused/LICENSE": isc}, want: []string{"has no licence"}},
		"forbidden":                             {files: map[string]string{"COPYING": agpl}, want: []string{"COPYING is under AGPL-3.0", "not allowed"}},
		"forbidden for the package only":        {files: map[string]string{"LICENSE": isc, "inner/LICENSE": agpl}, want: []string{"inner/LICENSE is under AGPL-3.0"}},
		"forbidden for an unused package":       {files: map[string]string{"LICENSE": isc, "unused/LICENSE": agpl}},
		"forbidden beside permissive":           {files: map[string]string{"LICENSE-ISC": isc, "LICENSE-AGPL": agpl}, want: []string{"LICENSE-AGPL is under AGPL-3.0"}},
		"an unknown licence":                    {files: map[string]string{"LICENSE.md": own}, want: []string{"LICENSE.md is not a known licence"}},
		"a known licence with additional rules": {files: map[string]string{"LICENSE": isc + own + own + own + own + own + own}, want: []string{"LICENSE is not a known licence"}},
		"source code called license":            {files: map[string]string{"LICENSE": isc, "inner/license.go": "package inner\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := collect(t.Context(), program(t, tc.files), []string{"linux/amd64"}, []string{"."})
			require.NoError(t, err)
			require.Len(t, all, 2, "with the standard library")
			err = judgeAll(all, nil)
			if len(tc.want) == 0 {
				require.NoError(t, err)
			}
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestExceptionAppliesToItsModuleLicenceAndPackages(t *testing.T) {
	t.Parallel()
	all, err := collect(t.Context(), program(t, map[string]string{"LICENSE": agpl, "COPYING": own}), []string{"linux/amd64"}, []string{"."})
	require.NoError(t, err)
	const used, id = "example.com/used", "AGPL-3.0-or-later"
	full := exception{licences: []string{id}, unrecognized: []string{"COPYING"}, packages: []string{used + "/inner"}}
	for name, tc := range map[string]struct {
		change func(e *exception)
		want   string
	}{
		"all of it":            {func(*exception) {}, ""},
		"not this licence":     {func(e *exception) { e.licences = []string{"GPL-3.0"} }, "is under " + id},
		"not this text":        {func(e *exception) { e.unrecognized = nil }, "COPYING is not a known licence"},
		"for another package":  {func(e *exception) { e.packages = []string{used + "/unused"} }, "package " + used + "/inner is in a binary"},
		"for the whole module": {func(e *exception) { e.packages = nil }, ""},
	} {
		with := full
		tc.change(&with)
		err := judgeAll(all, map[string]exception{used: with})
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.want, name)
	}
	require.ErrorContains(t, judgeAll(all, map[string]exception{used: full, "example.com/gone": {}}), "example.com/gone has an exception and is not in any binary")
}

func TestNoticesContainEachTextAndAreReproducible(t *testing.T) {
	t.Parallel()
	dir := program(t, map[string]string{"LICENSE": isc, "NOTICE": "made by Somebody\r\n"})
	var first []byte
	for range 2 {
		file := filepath.Join(t.TempDir(), "licenses", "THIRD_PARTY_NOTICES")
		var out, messages bytes.Buffer
		code := run(t.Context(), []string{"-C", dir, "-o", file, "-platforms", "linux/amd64,darwin/arm64", "."}, &out, &messages)
		require.Contains(t, messages.String(), "github.com/cyphar/filepath-securejoin has an exception", "the exceptions of Rouse apply")
		require.Equal(t, 1, code)
		require.NoFileExists(t, file, "no file may be written in case of an error")

		all, err := collect(t.Context(), dir, []string{"linux/amd64", "darwin/arm64"}, []string{"."})
		require.NoError(t, err)
		require.NoError(t, write(file, notices(all)))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, want := range []string{"example.com/used ", ": ISC\n", "--- LICENSE\n\n" + isc, "--- NOTICE\n\nmade by Somebody\n", "\nstd go", "The Go Authors"} {
			require.Contains(t, string(text), want)
		}
		if first != nil {
			require.Equal(t, string(first), string(text))
		}
		first = text
	}
}

func TestPackagesThatCannotBeListedAreAnError(t *testing.T) {
	t.Parallel()
	dir := program(t, nil)
	for want, args := range map[string][]string{
		"go list for linux/amd64":           {"-C", dir, "-platforms", "linux/amd64", "./none"},
		`platform "linux"`:                  {"-C", dir, "-platforms", "linux", "."},
		"the packages have no dependencies": {"-C", dir, "-platforms", "linux/amd64", "strings"},
		"go list for linux/amd64: chdir ":   {"-C", filepath.Join(dir, "none"), "."},
		"flag provided but not defined: -x": {"-x"},
	} {
		var out, messages bytes.Buffer
		require.NotZero(t, run(t.Context(), args, &out, &messages), want)
		require.Contains(t, messages.String(), want)
		require.Empty(t, out.String())
	}
}
