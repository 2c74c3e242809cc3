package settings

// Keys of the ConfigMaps, which are those of Kyma's serverless-config and serverless-log-config.
const (
	FunctionKey = "function-config.yaml"
	LogKey      = "log-config.yaml"
)

// MaxBytes is the length of the longest file that is read.
const MaxBytes = 256 << 10

// File is function-config.yaml. Values are texts as in Kyma's file; one that is absent or empty leaves what the flags of a
// process say, but for the trace collector, which an empty text switches off.
type File struct {
	FunctionPublisherProxyAddress  string        `json:"functionPublisherProxyAddress,omitempty"`
	FunctionTraceCollectorEndpoint *string       `json:"functionTraceCollectorEndpoint,omitempty"`
	FunctionReadyRequeueDuration   string        `json:"functionReadyRequeueDuration,omitempty"`
	HealthzLivenessTimeout         string        `json:"healthzLivenessTimeout,omitempty"`
	ResourcesConfiguration         *Resources    `json:"resourcesConfiguration,omitempty"`
	Scaling                        *ScalingFile  `json:"scaling,omitempty"`
	GitCheckInterval               string        `json:"gitCheckInterval,omitempty"`
	HTTPWait                       string        `json:"httpWait,omitempty"`
	Delivery                       *DeliveryFile `json:"delivery,omitempty"`
	Rollout                        *RolloutFile  `json:"rollout,omitempty"`
	Kyma                           `json:",inline"`
}

// Kyma are fields of Kyma's file that mean nothing here: they are flags of the processes, or have no counterpart.
type Kyma struct {
	MetricsPort                     any            `json:"metricsPort,omitempty"`
	HealthzPort                     any            `json:"healthzPort,omitempty"`
	LeaderElectionEnabled           *bool          `json:"leaderElectionEnabled,omitempty"`
	LeaderElectionID                string         `json:"leaderElectionID,omitempty"`
	SecretMutatingWebhookPort       any            `json:"secretMutatingWebhookPort,omitempty"`
	InternalEndpointPort            any            `json:"internalEndpointPort,omitempty"`
	Images                          map[string]any `json:"images,omitempty"`
	PackageRegistryConfigSecretName string         `json:"packageRegistryConfigSecretName,omitempty"`
}

// Resources wraps the resources of Functions as Kyma does.
type Resources struct {
	Function *FunctionResources `json:"function,omitempty"`
}

// FunctionResources wraps them once more.
type FunctionResources struct {
	Resources *Presets `json:"resources,omitempty"`
}

// Presets are the resource profiles of Functions.
type Presets struct {
	MinRequestCPU    string            `json:"minRequestCpu,omitempty"`
	MinRequestMemory string            `json:"minRequestMemory,omitempty"`
	DefaultPreset    string            `json:"defaultPreset,omitempty"`
	Presets          map[string]Preset `json:"presets,omitempty"`
}

// Preset is one resource profile.
type Preset struct {
	RequestCPU    string `json:"requestCpu"`
	RequestMemory string `json:"requestMemory"`
	LimitCPU      string `json:"limitCpu"`
	LimitMemory   string `json:"limitMemory"`
}

// ScalingFile are the defaults for Functions with a scaleConfig.
type ScalingFile struct {
	PollingInterval        string `json:"pollingInterval,omitempty"`
	CooldownPeriod         string `json:"cooldownPeriod,omitempty"`
	InitialCooldownPeriod  string `json:"initialCooldownPeriod,omitempty"`
	ScaleDownStabilization string `json:"scaleDownStabilization,omitempty"`
}

// DeliveryFile is how the eventbridge delivers again, for Subscriptions that say nothing.
type DeliveryFile struct {
	MaxAttempts int    `json:"maxAttempts,omitempty"`
	Backoff     string `json:"backoff,omitempty"`
	MaxBackoff  string `json:"maxBackoff,omitempty"`
}

// RolloutFile bounds how Functions follow settings that replace their pods.
type RolloutFile struct {
	MaxFunctions int `json:"maxFunctions,omitempty"`
}

// LogFile is log-config.yaml.
type LogFile struct {
	LogLevel  string `json:"logLevel,omitempty"`
	LogFormat string `json:"logFormat,omitempty"`
	// Components have levels of their own: eventbridge, or eventbridge/delivery.
	Components map[string]string `json:"components,omitempty"`
	// DebugLinesPerSecond bounds what the Functions and Subscriptions of one namespace may log by their annotation; 0: nothing.
	DebugLinesPerSecond *int `json:"debugLinesPerSecond,omitempty"`
}
