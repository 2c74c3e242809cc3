package charts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelmLintReportsNoProblems(t *testing.T) {
	t.Parallel()
	for name, set := range installations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := runHelm(t.Context(), []string{"lint", "--strict", chart}, set)
			require.NoError(t, err, stdout+stderr)
		})
	}
}

func TestInvalidValuesAreRejectedWithTheReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  values
		want []string
	}{
		"a misspelt value":               {values{"eventbridge.replica=3"}, []string{"/eventbridge", "additional properties 'replica' not allowed"}},
		"a misspelt section":             {values{"eventBridge.replicas=3"}, []string{"additional properties 'eventBridge' not allowed"}},
		"a switch that is a word":        {values{"apiRules.enabled=later"}, []string{"/apiRules/enabled", "got string, want boolean"}},
		"APIRules without gateways":      {values{"apiRules.enabled=true", "gateway.enabled=false"}, []string{"the gateways serve APIRules. Set gateway.enabled=true"}},
		"a gateway without a namespace":  {values{"apiRules.domains.public=example.com"}, []string{"/apiRules/domains", "additional properties 'public' not allowed"}},
		"a domain that is a host's URL":  {values{"apiRules.domains.a/b=https://example.com"}, []string{"/apiRules/domains", "does not match pattern"}},
		"an unknown Gateway API setting": {values{"apiRules.gatewayAPI=perhaps"}, []string{"/apiRules/gatewayAPI", "'auto', 'enabled', 'disabled'"}},
		"an authorizer twice": {
			values{
				"apiRules.authorizers[0].name=a", "apiRules.authorizers[0].service=a", "apiRules.authorizers[0].port=80",
				"apiRules.authorizers[1].name=a", "apiRules.authorizers[1].service=b", "apiRules.authorizers[1].port=80",
			}, []string{"apiRules.authorizers: the name a is there twice"},
		},
		"proxies that are trusted by name": {values{"apiRules.trustedProxies={proxy.example.com}"}, []string{"/apiRules/trustedProxies", "does not match pattern"}},
		"an invalid namespace":             {values{"operator.namespaces={Kyma}"}, []string{"/operator/namespaces/0", "does not match pattern"}},
		"all namespaces and one": {
			values{"operator.enabled=true", "operator.namespaces={*,kyma-system}"}, []string{`set it to ["*"] for all namespaces, or name them`},
		},
		"an unknown FIPS mode":                {values{"fips.mode=strict"}, []string{"/fips/mode", "'off', 'on', 'only'"}},
		"no replica":                          {values{"scaler.replicas=0"}, []string{"/scaler/replicas", "minimum: got 0, want 1"}},
		"an unknown log level":                {values{"logLevel=loud"}, []string{"/logLevel", "'debug', 'info', 'warn', 'error'"}},
		"an unknown runtime":                  {values{"runtimes.ruby=x"}, []string{"/runtimes", "additional properties 'ruby' not allowed"}},
		"a polling interval that is too long": {values{"scaling.pollingIntervalSeconds=3601"}, []string{"/scaling/pollingIntervalSeconds", "maximum: got 3,601, want 3,600"}},
		"the stream of dead letters":          {values{"stream.name=rouse-dead-letters"}, []string{"/stream/name"}},
		"the stream of retries":               {values{"stream.name=rouse-retries"}, []string{"/stream/name"}},
		"dead letters for a moment":           {values{"deadLetters.maxAge=9m"}, []string{"/deadLetters/maxAge", "does not match pattern"}},
		"a size with an invalid unit":         {values{"stream.maxBytes=700MB"}, []string{"/stream/maxBytes", "does not match pattern"}},
		"an image with its tag twice":         {values{"image.repository=host:5000/rouse:1"}, []string{"/image/repository"}},
		"a password in the URL of NATS":       {values{"nats.enabled=false", "nats.external.url=nats://me:secret@nats"}, []string{"/nats/external/url"}},
		"no NATS at all":                      {values{"nats.enabled=false"}, []string{"set nats.external.url to the NATS to use"}},
		"two NATS":                            {values{"nats.external.url=nats://nats"}, []string{"set nats.enabled=false to use an external NATS"}},
		"a publisher that is not a URL":       {values{"publisherAddress=eventbridge"}, []string{"/publisherAddress", "does not match pattern"}},
		"a password in a collector's URL":     {values{"traceCollectorEndpoint=http://me:secret@collector:4318"}, []string{"/traceCollectorEndpoint", "does not match pattern"}},
		"a sample ratio above 1":              {values{"eventbridge.traceSampleRatio=2"}, []string{"/eventbridge/traceSampleRatio", "maximum: got 2, want 1"}},
		"a watermark in per cent":             {values{"stream.watermark=95"}, []string{"/stream/watermark", "maximum: got 95, want 1"}},
		"a negative number of events":         {values{"eventbridge.journalEvents=-1"}, []string{"/eventbridge/journalEvents", "minimum: got -1, want 0"}},
		"a shared token":                      {values{"eventbridge.admin.secret=mine"}, []string{"/eventbridge/admin/secret", "value must be ''"}},
		"unknown endpoints of sinks":          {values{"sinks.endpoints=nodes"}, []string{"/sinks/endpoints", "'pods', 'service'"}},
		"a CA of sinks from two places":       {values{"sinks.ca.secret=a", "sinks.ca.configMap=b"}, []string{"sinks.ca.configMap and sinks.ca.secret are set"}},
		"replies larger than NATS accepts":    {values{"eventbridge.maxReplySize=65Mi"}, []string{"eventbridge.maxReplySize (65Mi) is more than NATS ever takes"}},
		"a batch too large for memory":        {values{"eventbridge.maxBatchSize=65Mi"}, []string{"eventbridge.publishes.maxBytes (64Mi) is smaller than eventbridge.maxBatchSize (65Mi)"}},
		"a pause without a unit":              {values{"eventbridge.delivery.backoff=500"}, []string{"/eventbridge/delivery/backoff"}},
		"two logins at NATS": {
			values{"nats.enabled=false", "nats.external.url=nats://nats", "nats.external.nkey.secret=a", "nats.external.token.secret=b"},
			[]string{"nats.external.nkey and nats.external.token are set: NATS takes one of them"},
		},
		"a login of an unknown component": {
			values{"nats.enabled=false", "nats.external.url=nats://nats", "nats.external.nkey.secret=a", "nats.external.nkey.keys.builder=b"},
			[]string{"/nats/external/nkey/keys", "additional properties 'builder' not allowed"},
		},
		"half of the certificates of KEDA and the scaler": {
			values{"scaler.tls.enabled=true", "scaler.tls.secret=a"}, []string{"scaler.tls: secret and kedaSecret belong together"},
		},
		"external metrics with half a certificate": {
			values{"scaler.externalMetrics.enabled=true", "scaler.externalMetrics.secret=a"}, []string{"scaler.externalMetrics: secret and caBundle belong together"},
		},
		"external metrics with a certificate that a Job makes": {
			values{"scaler.externalMetrics.enabled=true", "credentials.madeBy=job"}, []string{"Set scaler.externalMetrics.secret and caBundle"},
		},
		"external metrics by an authority that is none": {
			values{"scaler.externalMetrics.enabled=true", "scaler.externalMetrics.secret=a", "scaler.externalMetrics.caBundle=b"},
			[]string{"scaler.externalMetrics.caBundle has no certificate in PEM"},
		},
		"certificates without TLS": {
			values{"scaler.tls.secret=a", "scaler.tls.kedaSecret=b"}, []string{"set scaler.tls.enabled too"},
		},
		"a certificate without its key": {
			values{"nats.enabled=false", "nats.external.url=tls://nats", "nats.external.tls.certKey=tls.crt"},
			[]string{"certKey and keyKey belong together"},
		},
		"a certificate from nowhere": {
			values{"nats.enabled=false", "nats.external.url=tls://nats", "nats.external.tls.certKey=tls.crt", "nats.external.tls.keyKey=tls.key"},
			[]string{"set nats.external.tls.secret to the Secret"},
		},
		"an issuer without TLS": {values{"dashboard.oidc.issuer=http://login.example.com"}, []string{"/dashboard/oidc/issuer", "does not match pattern"}},
		"an issuer without a client": {
			values{"dashboard.enabled=true", "dashboard.oidc.issuer=https://login.example.com"}, []string{"without dashboard.oidc.clientID"},
		},
		"an issuer that sends users nowhere": {
			values{"dashboard.enabled=true", "dashboard.oidc.issuer=https://login.example.com", "dashboard.oidc.clientID=a"},
			[]string{"without dashboard.oidc.url or dashboard.host"},
		},
		"a dashboard at an address without TLS": {values{"dashboard.oidc.url=http://rouse.example.com"}, []string{"/dashboard/oidc/url", "does not match pattern"}},
		"scopes in one text":                    {values{"dashboard.oidc.scopes[0]=email groups"}, []string{"/dashboard/oidc/scopes/0", "does not match pattern"}},
		"an issuer's CA that is a path": {
			values{"dashboard.enabled=true", "dashboard.oidc.issuer=https://login.example.com", "dashboard.oidc.clientID=a", "dashboard.oidc.url=https://a.example.com", "dashboard.oidc.caBundle=/ca.crt"},
			[]string{"dashboard.oidc.caBundle has no certificate"},
		},
		"a priority of Kubernetes' own":        {values{"priorityClass.value=2000000000"}, []string{"/priorityClass/value", "maximum: got 2×10⁰⁹, want 1×10⁰⁹"}},
		"a priority in words":                  {values{"priorityClass.name=Very High"}, []string{"/priorityClass/name", "does not match pattern"}},
		"DNS at a port that there is not":      {values{"networkPolicies.dnsPorts={65536}"}, []string{"/networkPolicies/dnsPorts/0", "maximum: got 65,536, want 65,535"}},
		"callers without a selector":           {values{"functions.networkPolicies.from[0].pods=a"}, []string{"/functions/networkPolicies/from/0", "additional properties 'pods' not allowed"}},
		"a port of no protocol":                {values{"functions.networkPolicies.egress[0].ports[0].protocol=HTTP"}, []string{"/functions/networkPolicies/egress/0/ports/0/protocol"}},
		"a Git check without a pause":          {values{"git.checkInterval=1s"}, []string{"/git/checkInterval", "does not match pattern"}},
		"a network without its size":           {values{"controller.deniedCIDRs={10.0.0.1}"}, []string{"/controller/deniedCIDRs/0", "does not match pattern"}},
		"more builds than all":                 {values{"builds.perNamespace=6"}, []string{"builds.perNamespace (6) is more than builds.maxSimultaneous (5)"}},
		"no build at all":                      {values{"builds.maxSimultaneous=0"}, []string{"/builds/maxSimultaneous", "minimum: got 0, want 1"}},
		"an image size without a sense":        {values{"builds.maxImageSize=1GB"}, []string{"/builds/maxImageSize", "does not match pattern"}},
		"a build profile that there is not":    {values{"builds.defaultProfile=huge"}, []string{"/builds/defaultProfile", "'local-dev', 'slow', 'normal', 'fast'"}},
		"a CA bundle that is a path":           {values{"caBundle=/etc/ssl/ca.crt"}, []string{"caBundle has no certificate", "--set-file caBundle="}},
		"a registry's address that is a URL":   {values{"registry.external.registryAddress=https://registry.example.com"}, []string{"/registry/external/registryAddress"}},
		"credentials for no registry":          {values{"registry.external.username=me", "registry.external.password=x"}, []string{"registry.external.username is set, but no registry"}},
		"a registry's user without a password": {values{"registry.external.registryAddress=a.example.com", "registry.external.username=me"}, []string{"username and password belong together"}},
		"two descriptions of a registry": {
			values{"registry.external.existingSecret=mine", "registry.external.registryAddress=a.example.com"},
			[]string{"registry.external.existingSecret and registry.external.registryAddress are set"},
		},
		"a registry that no node reaches":   {values{"registry.internal.nodePort=0"}, []string{"set registry.internal.pullAddress"}},
		"a port that nodes do not give":     {values{"registry.internal.nodePort=80"}, []string{"/registry/internal/nodePort"}},
		"more copies than servers":          {values{"stream.replicas=3"}, []string{"the chart's own NATS has one replica"}},
		"streams that do not fit the store": {values{"stream.maxBytes=2Gi"}, []string{"nats.maxFileStore (1Gi) is smaller than stream.maxBytes (2Gi), retries.maxBytes (100Mi), deadLetters.maxBytes (100Mi), delayed.maxBytes (64Mi) and 32Mi for Schedules and Doors together"}},
		"a store that fills its volume":     {values{"nats.persistence.size=1Gi"}, []string{"nats.persistence.size (1Gi) must be larger than nats.maxFileStore (1Gi)"}},
		"events that NATS would refuse":     {values{"eventbridge.maxRequestSize=1Mi"}, []string{"nats.maxPayload (1Mi) does not fit an event of eventbridge.maxRequestSize (1Mi)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stderr, err := runHelm(t.Context(), []string{"template", "rouse", chart}, tc.set)
			require.Error(t, err)
			for _, want := range tc.want {
				require.Contains(t, stderr, want)
			}
		})
	}
}
