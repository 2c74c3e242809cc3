package v1alpha2_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

func TestFunctionIsAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]string{
		"inline source":                             `{}`,
		"inline source with dependencies":           `source: {inline: {source: x, dependencies: '{"dependencies": {"lodash": "4"}}'}}`,
		"runtime nodejs20":                          `runtime: nodejs20`,
		"runtime nodejs22":                          `runtime: nodejs22`,
		"runtime nodejs24":                          `runtime: nodejs24`,
		"runtime nodejs26":                          `runtime: nodejs26`,
		"runtime python312":                         `runtime: python312`,
		"runtime python314":                         `runtime: python314`,
		"another image":                             `runtimeImageOverride: example.com/runtime:1`,
		"Git source":                                `source: {gitRepository: {url: 'https://example.com/r.git', baseDir: /, reference: main}}`,
		"Git source with a password":                `source: {gitRepository: {url: u, baseDir: /, reference: main, auth: {type: basic, secretName: s}}}`,
		"Git source with a key":                     `source: {gitRepository: {url: u, baseDir: /, reference: main, auth: {type: key, secretName: s}}}`,
		"environment variables":                     `env: [{name: A, value: b}, {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]`,
		"a name of an environment variable twice":   `env: [{name: A, value: b}, {name: A, value: c}]`,
		"a name that only begins like a reserved":   `env: [{name: FUNC_RUNTIME_2, value: b}, {name: func_runtime, value: c}]`,
		"environment variables that may be changed": `env: [{name: FUNC_NAME, value: b}, {name: PUBLISHER_PROXY_ADDRESS, value: c}]`,
		"profile XS":                                `resourceConfiguration: {function: {profile: XS}}`,
		"profile S":                                 `resourceConfiguration: {function: {profile: S}}`,
		"profile M":                                 `resourceConfiguration: {function: {profile: M}}`,
		"profile L":                                 `resourceConfiguration: {function: {profile: L}}`,
		"profile XL":                                `resourceConfiguration: {function: {profile: XL}}`,
		"resources":                                 `resourceConfiguration: {function: {resources: {requests: {cpu: 50m}, limits: {cpu: 1, memory: 64Mi}}}}`,
		"empty resources":                           `resourceConfiguration: {function: {resources: {}}}`,
		"an empty resource configuration":           `resourceConfiguration: {}`,
		"deprecated build profile local-dev":        `resourceConfiguration: {build: {profile: local-dev}}`,
		"deprecated build profile slow":             `resourceConfiguration: {build: {profile: slow}}`,
		"deprecated build profile normal":           `resourceConfiguration: {build: {profile: normal}}`,
		"deprecated build profile fast":             `resourceConfiguration: {build: {profile: fast}}`,
		"deprecated build resources":                `resourceConfiguration: {build: {resources: {limits: {cpu: 1}}}, function: {profile: S}}`,
		"scaling from zero":                         `scaleConfig: {minReplicas: 0, maxReplicas: 1}`,
		"scaling within bounds":                     `scaleConfig: {minReplicas: 2, maxReplicas: 5}`,
		"scaling with equal bounds":                 `scaleConfig: {minReplicas: 3, maxReplicas: 3}`,
		"no replicas":                               `replicas: 0`,
		"many replicas":                             `replicas: 100`,
		"an empty deprecated template":              `template: {}`,
		"Secrets as files":                          `secretMounts: [{secretName: a, mountPath: /a}, {secretName: b, mountPath: /b}]`,
		"a Secret name of 253 characters":           `secretMounts: [{secretName: ` + strings.Repeat("a", 253) + `, mountPath: /a}]`,
		"labels":                                    `labels: {app: shop, example.com/team: orders}`,
		"a label key of 63 characters":              `labels: {` + strings.Repeat("a", 63) + `: b}`,
		"a label value of 64 characters":            `labels: {a: ` + strings.Repeat("b", 64) + `}`,
		"annotations":                               `annotations: {sidecar.istio.io/inject: "false"}`,
		"an annotation key of 64 characters":        `annotations: {` + strings.Repeat("a", 64) + `: b}`,
		"an annotation key that only looks alike":   `annotations: {proxy.istio.io/config2: a, x.serverless.kyma-project.io/y: b}`,
		"security contexts":                         `{podSecurityContext: {runAsUser: 1000}, containerSecurityContext: {readOnlyRootFilesystem: true}}`,
	}
	for name, fields := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, function(t, namespace, fields))
			require.NoError(t, err)
		})
	}
}

const (
	sourceMessage    = "Invalid value: Use GitRepository or Inline source"
	envMessage       = "Invalid value: Following envs are reserved and cannot be used: ['FUNC_RUNTIME','FUNC_HANDLER','FUNC_PORT','FUNC_HANDLER_SOURCE','FUNC_HANDLER_DEPENDENCIES','MOD_NAME','NODE_PATH','PYTHONPATH']"
	resourcesMessage = "Invalid value: Use profile or resources"
	templateMessage  = "Invalid value: Not supported: Use spec.labels and spec.annotations to label and/or annotate Function's Pods."
)

func TestFunctionIsRefused(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]struct{ fields, field, message string }{
		"no runtime":         {`runtime: null`, "spec.runtime", "Required value"},
		"an empty runtime":   {`runtime: ""`, "spec.runtime", `Unsupported value: "": supported values: "nodejs20", "nodejs22", "nodejs24", "nodejs26", "python312", "python314", "go126"`},
		"an unknown runtime": {`runtime: nodejs18`, "spec.runtime", `Unsupported value: "nodejs18": supported values: "nodejs20", "nodejs22", "nodejs24", "nodejs26", "python312", "python314", "go126"`},

		"no source":              {`source: null`, "spec.source", "Required value"},
		"an empty source":        {`source: {}`, "spec.source", sourceMessage},
		"both sources":           {`source: {inline: {source: x}, gitRepository: {url: u, baseDir: /, reference: main}}`, "spec.source", sourceMessage},
		"no inline code":         {`source: {inline: {}}`, "spec.source.inline.source", "Required value"},
		"empty inline code":      {`source: {inline: {source: ""}}`, "spec.source.inline.source", "should be at least 1 chars long"},
		"Git without URL":        {`source: {gitRepository: {baseDir: /, reference: main}}`, "spec.source.gitRepository.url", "Required value"},
		"Git without baseDir":    {`source: {gitRepository: {url: u, reference: main}}`, "spec.source.gitRepository", "Invalid value: BaseDir is required and cannot be empty"},
		"Git with blank baseDir": {`source: {gitRepository: {url: u, reference: main, baseDir: "  "}}`, "spec.source.gitRepository", "Invalid value: BaseDir is required and cannot be empty"},
		"Git without reference":  {`source: {gitRepository: {url: u, baseDir: /}}`, "spec.source.gitRepository", "Invalid value: Reference is required and cannot be empty"},
		"Git, blank reference":   {`source: {gitRepository: {url: u, baseDir: /, reference: "\t"}}`, "spec.source.gitRepository", "Invalid value: Reference is required and cannot be empty"},
		"Git, no auth type":      {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {secretName: s}}}`, "spec.source.gitRepository.auth.type", "Required value"},
		"Git, unknown auth type": {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {type: token, secretName: s}}}`, "spec.source.gitRepository.auth.type", `Unsupported value: "token": supported values: "basic", "key"`},
		"Git, no auth Secret":    {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {type: key}}}`, "spec.source.gitRepository.auth.secretName", "Required value"},
		"Git, blank auth Secret": {`source: {gitRepository: {url: u, baseDir: /, reference: m, auth: {type: key, secretName: " "}}}`, "spec.source.gitRepository.auth.secretName", "SecretName is required and cannot be empty"},

		"env without a name":            {`env: [{value: a}]`, "spec.env[0].name", "Required value"},
		"env FUNC_RUNTIME":              {`env: [{name: A}, {name: FUNC_RUNTIME}]`, "spec.env", envMessage},
		"env FUNC_HANDLER":              {`env: [{name: FUNC_HANDLER}]`, "spec.env", envMessage},
		"env FUNC_PORT":                 {`env: [{name: FUNC_PORT}]`, "spec.env", envMessage},
		"env FUNC_HANDLER_SOURCE":       {`env: [{name: FUNC_HANDLER_SOURCE}]`, "spec.env", envMessage},
		"env FUNC_HANDLER_DEPENDENCIES": {`env: [{name: FUNC_HANDLER_DEPENDENCIES}]`, "spec.env", envMessage},
		"env MOD_NAME":                  {`env: [{name: MOD_NAME}]`, "spec.env", envMessage},
		"env NODE_PATH":                 {`env: [{name: NODE_PATH}]`, "spec.env", envMessage},
		"env PYTHONPATH":                {`env: [{name: PYTHONPATH}]`, "spec.env", envMessage},

		"neither profile nor resources": {`resourceConfiguration: {function: {}}`, "spec.resourceConfiguration.function", resourcesMessage},
		"profile and resources":         {`resourceConfiguration: {function: {profile: S, resources: {limits: {cpu: 1}}}}`, "spec.resourceConfiguration.function", resourcesMessage},
		"an unknown profile":            {`resourceConfiguration: {function: {profile: XXL}}`, "spec.resourceConfiguration.function", "Invalid value: Invalid profile, please use one of: ['XS','S','M','L','XL']"},
		"a build profile for a pod":     {`resourceConfiguration: {function: {profile: fast}}`, "spec.resourceConfiguration.function", "Invalid value: Invalid profile, please use one of: ['XS','S','M','L','XL']"},
		"an empty build":                {`resourceConfiguration: {build: {}}`, "spec.resourceConfiguration.build", resourcesMessage},
		"build profile and resources":   {`resourceConfiguration: {build: {profile: slow, resources: {}}}`, "spec.resourceConfiguration.build", resourcesMessage},
		"an unknown build profile":      {`resourceConfiguration: {build: {profile: XS}}`, "spec.resourceConfiguration.build", "Invalid value: Invalid profile, please use one of: ['local-dev','slow','normal','fast']"},

		"scaling without minimum":     {`scaleConfig: {maxReplicas: 1}`, "spec.scaleConfig.minReplicas", "Required value"},
		"scaling without maximum":     {`scaleConfig: {minReplicas: 1}`, "spec.scaleConfig.maxReplicas", "Required value"},
		"scaling from below zero":     {`scaleConfig: {minReplicas: -1, maxReplicas: 1}`, "spec.scaleConfig.minReplicas", "should be greater than or equal to 0"},
		"scaling to zero at most":     {`scaleConfig: {minReplicas: 0, maxReplicas: 0}`, "spec.scaleConfig.maxReplicas", "should be greater than or equal to 1"},
		"scaling with crossed bounds": {`scaleConfig: {minReplicas: 3, maxReplicas: 2}`, "spec.scaleConfig", "Invalid value: minReplicas should be less than or equal maxReplicas"},

		"template with labels":      {`template: {labels: {a: b}}`, "spec.template", templateMessage},
		"template with annotations": {`template: {annotations: {a: b}}`, "spec.template", templateMessage},

		"a mount without a Secret":      {`secretMounts: [{mountPath: /a}]`, "spec.secretMounts[0].secretName", "Required value"},
		"a mount of an empty name":      {`secretMounts: [{secretName: "", mountPath: /a}]`, "spec.secretMounts[0].secretName", "should be at least 1 chars long"},
		"a mount of a very long name":   {`secretMounts: [{secretName: ` + strings.Repeat("a", 254) + `, mountPath: /a}]`, "spec.secretMounts[0].secretName", "may not be more than 253 bytes"},
		"a mount without a path":        {`secretMounts: [{secretName: a}]`, "spec.secretMounts[0].mountPath", "Required value"},
		"a mount at an empty path":      {`secretMounts: [{secretName: a, mountPath: ""}]`, "spec.secretMounts[0].mountPath", "should be at least 1 chars long"},
		"a reserved label":              {`labels: {serverless.kyma-project.io/uuid: a}`, "spec.labels", "Invalid value: Labels has key starting with serverless.kyma-project.io/ which is not allowed"},
		"a label key of 64 characters":  {`labels: {` + strings.Repeat("a", 64) + `: b}`, "spec.labels", "Invalid value: Label value cannot be longer than 63"},
		"a reserved annotation":         {`annotations: {serverless.kyma-project.io/a: b}`, "spec.annotations", "Invalid value: Annotations has key starting with serverless.kyma-project.io/ which is not allowed"},
		"the annotation of Istio's own": {`annotations: {proxy.istio.io/config: "{}"}`, "spec.annotations", "Invalid value: Annotations has key proxy.istio.io/config which is not allowed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, function(t, namespace, tc.fields))
			causes := envtest.Causes(t, err)
			require.Len(t, causes, 1)
			require.True(t, strings.HasPrefix(causes[0], tc.field+": "), causes[0])
			require.True(t, strings.HasSuffix(causes[0], tc.message), causes[0])
		})
	}
}

func TestFunctionWithoutSpecIsRefused(t *testing.T) {
	t.Parallel()
	object := function(t, cluster.Environment(t).Namespace(t), `{}`)
	delete(object.Object, "spec")
	_, err := create(t, object)
	require.Equal(t, []string{"spec: Required value"}, envtest.Causes(t, err))
}

// The schema and the scale subresource both have a say in this one.
func TestNegativeReplicasAreRefused(t *testing.T) {
	t.Parallel()
	_, err := create(t, function(t, cluster.Environment(t).Namespace(t), `replicas: -1`))
	require.Contains(t, envtest.Causes(t, err),
		"spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0")
}
