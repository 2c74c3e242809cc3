package target

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
)

func TestARollbackChoosesTheVersionBeforeTheNewest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		now      Details
		versions []string // the newest first
		named    string
		want     string
		code     exit.Code
		err      string
	}{
		"the newest serves":                  {now: Details{Version: "c"}, versions: []string{"c", "b", "a"}, want: "b"},
		"the newest is rolled out":           {now: Details{Version: "b"}, versions: []string{"c", "b", "a"}, want: "b"},
		"none has served":                    {versions: []string{"b", "a"}, want: "a"},
		"a version is named":                 {now: Details{Version: "c"}, versions: []string{"c", "b", "a"}, named: "a", want: "a"},
		"the one that serves is named":       {now: Details{Version: "b"}, versions: []string{"c", "b"}, named: "b", want: "b"},
		"a version that is not kept":         {now: Details{Version: "b"}, versions: []string{"b", "a"}, named: "x", code: exit.NotFound, err: "there is no version x; there are b, a"},
		"one version alone":                  {now: Details{Version: "a"}, versions: []string{"a"}, code: exit.NotFound, err: "there is no earlier version"},
		"no version":                         {code: exit.NotFound, err: "there is no earlier version"},
		"a rollback is in force":             {now: Details{Version: "b", RollbackTo: "b"}, versions: []string{"c", "b"}, code: exit.Usage, err: "a rollback to b is in force"},
		"another one, while one is in force": {now: Details{Version: "b", RollbackTo: "b"}, versions: []string{"c", "b", "a"}, named: "a", want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var versions []Version
			for _, each := range tc.versions {
				versions = append(versions, Version{Name: each})
			}
			chosen, err := ChooseVersion(tc.now, versions, tc.named)
			require.Equal(t, tc.want, chosen)
			require.Equal(t, tc.code, exit.CodeOf(err))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}
