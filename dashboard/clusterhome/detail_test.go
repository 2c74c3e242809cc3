package clusterhome

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
)

func TestARollbackMayChooseVersionsThatNeitherServeNorAreRolledOut(t *testing.T) {
	const serving, rollingOut, offered = dashboard.VersionServing, dashboard.VersionRollingOut, ""
	for name, test := range map[string]struct {
		versions            []string // as their Deployment orders them
		serving, rollbackTo string
		want                []string
	}{
		"one that has never served":                     {[]string{"a"}, "", "", []string{rollingOut}},
		"one that serves":                               {[]string{"a"}, "a", "", []string{serving}},
		"the newest serves":                             {[]string{"c", "b", "a"}, "c", "", []string{serving, offered, offered}},
		"the newest is rolled out":                      {[]string{"c", "b", "a"}, "b", "", []string{rollingOut, serving, offered}},
		"a rollback that the controller has not read":   {[]string{"c", "b", "a"}, "c", "a", []string{serving, offered, rollingOut}},
		"a rollback is rolled out":                      {[]string{"a", "c", "b"}, "c", "a", []string{rollingOut, serving, offered}},
		"a rollback serves":                             {[]string{"a", "c", "b"}, "a", "a", []string{serving, offered, offered}},
		"the one before the newest was asked for":       {[]string{"b", "c"}, "b", "previous", []string{serving, offered}},
		"a rollback to a version that is kept no more":  {[]string{"c", "b"}, "c", "a", []string{serving, offered}},
		"the version that serves is not kept any more":  {[]string{"c", "b"}, "a", "", []string{rollingOut, offered}},
		"another one is asked for while one rolls out":  {[]string{"c", "b", "a"}, "b", "a", []string{rollingOut, serving, rollingOut}},
		"no version is kept, as of one that is deleted": {nil, "", "", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			var versions []target.Version
			for _, version := range test.versions {
				versions = append(versions, target.Version{Name: version, Pods: 2})
			}
			got := []string{}
			for i, version := range statesOf(versions, test.serving, test.rollbackTo) {
				got = append(got, version.State)
				require.Equal(t, dashboard.Version{Name: test.versions[i], Pods: 2, Runs: version.State == serving, State: version.State}, version)
			}
			require.Equal(t, test.want, got)
		})
	}
}
