package local

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultOptionsReadTheEnvironment(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		env  map[string]string
		want func(*testing.T, Options)
	}{
		"the defaults": {want: func(t *testing.T, got Options) {
			t.Helper()
			require.Equal(t, 1, got.Nodes)
			require.Empty(t, got.Kubeconfig)
		}},
		"a user's own cluster": {
			env: map[string]string{"KUBECONFIG": "/home/me/.kube/config"},
			want: func(t *testing.T, got Options) {
				t.Helper()
				require.Equal(t, "/home/me/.kube/config", got.Kubeconfig)
			},
		},
		"the local cluster, as env prints it, is not the user's own": {
			env: map[string]string{"KUBECONFIG": "/var/lib/rouse-cluster/kubeconfig"},
			want: func(t *testing.T, got Options) {
				t.Helper()
				require.Empty(t, got.Kubeconfig)
			},
		},
		"nodes": {
			env: map[string]string{"NODES": "3"},
			want: func(t *testing.T, got Options) {
				t.Helper()
				require.Equal(t, 3, got.Nodes)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DefaultOptions(func(name string) string { return tc.env[name] })
			require.NoError(t, err)
			require.NoError(t, got.Validate())
			tc.want(t, got)
		})
	}
}

func TestValidateListsAllProblems(t *testing.T) {
	t.Parallel()
	options, err := DefaultOptions(func(string) string { return "" })
	require.NoError(t, err)
	options.Nodes, options.Dir = 0, "relative"
	err = options.Validate()
	require.ErrorContains(t, err, "nodes can be 1 to 9, not 0")
	require.ErrorContains(t, err, "ROUSE_STATE")
}
