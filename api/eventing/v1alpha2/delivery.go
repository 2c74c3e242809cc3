package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Delivery tunes how events are delivered. Missing fields have the installation's defaults.
type Delivery struct {
	// MaxAttempts is the number of attempts after which an event becomes a dead letter.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`

	// Backoff is the delay between attempts.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`

	// Timeout is the timeout of one attempt.
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="must be more than 0s and at most 1h"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// TTL is the maximum age of an event. An older event is no longer delivered and becomes a dead letter, even while
	// deliveries are paused. Without it events do not expire.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// MaxInFlight bounds the concurrent deliveries, over all replicas of the eventbridge. A delivery without a response
	// counts for a quarter of its timeout, unless the limit is one. It takes precedence over
	// config.maxInFlightMessages.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxInFlight *int32 `json:"maxInFlight,omitempty"`

	// RateLimit bounds the deliveries per second, in each replica of the eventbridge.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`

	// OrderedBy is the name of an attribute. Events with the same value of the attribute are delivered one after the
	// other, in the order in which they were published; a failing event delays the following ones until it succeeds or
	// becomes a dead letter. The order holds over all replicas of the eventbridge.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]{1,64}$`
	// +optional
	OrderedBy string `json:"orderedBy,omitempty"`

	// StartFrom is the position in the stream at which a new Subscription starts.
	// +optional
	StartFrom *StartFrom `json:"startFrom,omitempty"`

	// DeadLetter configures a sink for dead letters, which are stored in any case.
	// +optional
	DeadLetter *DeadLetter `json:"deadLetter,omitempty"`

	// Webhook signs the deliveries to spec.sink by Standard Webhooks. Each is then the whole event as JSON, so that the
	// signature covers its attributes too. Events wait while the Secret or its key is missing.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Webhook signs deliveries.
type Webhook struct {
	// SecretName is a Secret in the Subscription's namespace. Its key current signs, and beside it its key previous, until
	// the receiver knows the other one. A key is whsec_ and the base64 of 24 to 64 bytes, or whsk_ and that of a private key
	// of ed25519.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// DeadLetter configures the delivery of dead letters.
type DeadLetter struct {
	// Sink is a URL that receives each dead letter, with the reason as extensions. Attempts are repeated until the sink
	// accepts it, and the dead letter remains stored. The rules of spec.sink apply.
	Sink string `json:"sink"`
}

// Backoff is the delay between attempts.
type Backoff struct {
	// Policy determines how the delay grows: exponential doubles it with each attempt, linear adds the first delay,
	// constant keeps it.
	// +kubebuilder:validation:Enum=exponential;linear;constant
	// +kubebuilder:default=exponential
	// +optional
	Policy BackoffPolicy `json:"policy,omitempty"`

	// Delay is the delay after the first attempt.
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be more than 0s and at most 24h"
	// +optional
	Delay *metav1.Duration `json:"delay,omitempty"`

	// MaxDelay is the maximum delay between attempts, even if the sink requests a longer one.
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be more than 0s and at most 24h"
	// +optional
	MaxDelay *metav1.Duration `json:"maxDelay,omitempty"`
}

// BackoffPolicy determines how the delay grows from attempt to attempt.
type BackoffPolicy string

// The policies.
const (
	BackoffExponential BackoffPolicy = "exponential"
	BackoffLinear      BackoffPolicy = "linear"
	BackoffConstant    BackoffPolicy = "constant"
)

// RateLimit bounds the rate of deliveries.
type RateLimit struct {
	// EventsPerSecond is the maximum number of deliveries per second.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	EventsPerSecond int32 `json:"eventsPerSecond"`
}

// StartFrom is a position in the stream.
//
// +kubebuilder:validation:XValidation:rule="(self.position == 'time') == has(self.time)",message="time belongs to position time"
// +kubebuilder:validation:XValidation:rule="(self.position == 'sequence') == has(self.sequence)",message="sequence belongs to position sequence"
type StartFrom struct {
	// Position is one of new (events published from now on), all (including stored events), time and sequence (events
	// stored since then).
	// +kubebuilder:validation:Enum=new;all;time;sequence
	Position StartPosition `json:"position"`

	// Time is the earliest time of the first event, for position time.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// Sequence is the sequence of the first event in the stream, for position sequence.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Sequence *int64 `json:"sequence,omitempty"`
}

// StartPosition is the kind of a start position.
type StartPosition string

// The positions.
const (
	StartNew      StartPosition = "new"
	StartAll      StartPosition = "all"
	StartTime     StartPosition = "time"
	StartSequence StartPosition = "sequence"
)
