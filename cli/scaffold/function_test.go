package scaffold

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func exposed(host, gateway string) func(*Function) {
	return func(f *Function) { f.Trigger, f.Type, f.Source, f.Host, f.Gateway = TriggerHTTP, "", "", host, gateway }
}

func TestInvalidFunctionsAreRefusedWithTheRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Function)
		want   string
	}{
		"a name with capitals":        {func(f *Function) { f.Name = "Thanks" }, `"Thanks" cannot be the name of a Function: take at most 63 lower-case letters`},
		"a name with a digit first":   {func(f *Function) { f.Name = "1st" }, "beginning with a letter"},
		"a path":                      {func(f *Function) { f.Name = "../thanks" }, "cannot be the name of a Function"},
		"no name":                     {func(f *Function) { f.Name = "" }, `"" cannot be the name of a Function`},
		"a long name":                 {func(f *Function) { f.Name = strings.Repeat("a", 64) }, "at most 63"},
		"a namespace with dots":       {func(f *Function) { f.Namespace = "a.b" }, `"a.b" cannot be the name of a namespace`},
		"an unknown runtime":          {func(f *Function) { f.Runtime = "ruby" }, `there is no runtime "ruby": take go, go126, nodejs, nodejs20`},
		"an unknown trigger":          {func(f *Function) { f.Trigger = "cron" }, `there is no trigger "cron": take http or event`},
		"events without a type":       {func(f *Function) { f.Type = "" }, "needs --type and --source"},
		"events without a source":     {func(f *Function) { f.Source = "" }, "needs --type and --source"},
		"HTTP with a type":            {func(f *Function) { f.Trigger = TriggerHTTP }, "has no --type and no --source"},
		"a host for events":           {func(f *Function) { f.Host, f.Gateway = "thanks", defaultGateway }, "--expose is for a Function that is called over HTTP"},
		"a host with capitals":        {exposed("Thanks", defaultGateway), `--expose: "Thanks" is no host: take a word such as thanks, or a whole name such as thanks.example.com`},
		"a host with a port":          {exposed("thanks.example.com:443", defaultGateway), "is no host"},
		"a gateway of one word":       {exposed("thanks", "kyma-gateway"), `--gateway: "kyma-gateway" is not the namespace and the name of a gateway, such as kyma-system/kyma-gateway`},
		"a type of one segment":       {func(f *Function) { f.Type = "paid" }, "must have minimum 2 segments"},
		"a type of Kyma's own prefix": {func(f *Function) { f.Type = "sap.kyma.custom.a.b.c.v1" }, "must not have sap.kyma.custom as type prefix"},
		"a type of two lines":         {func(f *Function) { f.Type = "order.\npaid" }, "--type has a character that cannot be printed"},
		"a source with a bell":        {func(f *Function) { f.Source = "shop\a" }, "--source has a character that cannot be printed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Function{
				Name: "thanks", Namespace: "orders", Runtime: v1alpha2.RuntimeNodeJS22,
				Trigger: TriggerEvent, Type: "order.invoiced", Source: "invoicing",
			}
			require.NoError(t, f.Validate())
			tc.change(&f)
			require.ErrorContains(t, f.Validate(), tc.want)
			files, err := Files(f)
			require.Error(t, err)
			require.Empty(t, files)
		})
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	err := Function{Name: "A", Namespace: "B", Runtime: "c", Trigger: "d"}.Validate()
	for _, part := range []string{`"A"`, `"B"`, `"c"`, `"d"`} {
		require.ErrorContains(t, err, part)
	}
}
