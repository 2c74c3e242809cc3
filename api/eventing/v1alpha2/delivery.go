package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Delivery tunes how events are delivered. What it leaves out is as the installation has it.
type Delivery struct {
	// MaxAttempts after which an event becomes a dead letter.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxAttempts *int32 `json:"maxAttempts,omitempty"`

	// Backoff is the wait between attempts.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`

	// Timeout of one attempt.
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="must be more than 0s and at most 1h"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// TTL is how old an event may become. One that is older is not delivered any more and is a dead letter, also while
	// nothing is delivered. Without it events do not expire.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// MaxInFlight bounds the deliveries at a time, over all replicas of the eventbridge. A call without an answer counts for a
	// quarter of its timeout, unless there is to be one at a time. It wins over config.maxInFlightMessages.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxInFlight *int32 `json:"maxInFlight,omitempty"`

	// RateLimit bounds the deliveries per second, in each replica of the eventbridge.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`

	// OrderedBy is an attribute. Events with the same value of it are delivered one after the other, in the order
	// in which they were published; one that fails holds up those after it until it succeeds or is a dead letter.
	// It holds over all replicas of the eventbridge.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]{1,64}$`
	// +optional
	OrderedBy string `json:"orderedBy,omitempty"`

	// StartFrom says which stored events a new Subscription gets.
	// +optional
	StartFrom *StartFrom `json:"startFrom,omitempty"`

	// DeadLetter says what becomes of events that are given up, besides being kept.
	// +optional
	DeadLetter *DeadLetter `json:"deadLetter,omitempty"`
}

// DeadLetter says what becomes of dead letters.
type DeadLetter struct {
	// Sink is a URL that gets each dead letter, with the reason as extensions. It is tried until it takes the letter,
	// and the letter is kept then too. The same rules hold as for spec.sink.
	Sink string `json:"sink"`
}

// Backoff is the wait between attempts.
type Backoff struct {
	// Policy: exponential doubles the delay with each attempt, linear adds it, constant leaves it.
	// +kubebuilder:validation:Enum=exponential;linear;constant
	// +kubebuilder:default=exponential
	// +optional
	Policy BackoffPolicy `json:"policy,omitempty"`

	// Delay after the first attempt.
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be more than 0s and at most 24h"
	// +optional
	Delay *metav1.Duration `json:"delay,omitempty"`

	// MaxDelay between attempts, also when the sink asks for more.
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be more than 0s and at most 24h"
	// +optional
	MaxDelay *metav1.Duration `json:"maxDelay,omitempty"`
}

// BackoffPolicy is how the wait grows from attempt to attempt.
type BackoffPolicy string

// The policies.
const (
	BackoffExponential BackoffPolicy = "exponential"
	BackoffLinear      BackoffPolicy = "linear"
	BackoffConstant    BackoffPolicy = "constant"
)

// RateLimit bounds deliveries over time.
type RateLimit struct {
	// EventsPerSecond that are delivered at most.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	EventsPerSecond int32 `json:"eventsPerSecond"`
}

// StartFrom is a position in the stream.
//
// +kubebuilder:validation:XValidation:rule="(self.position == 'time') == has(self.time)",message="time belongs to position time"
// +kubebuilder:validation:XValidation:rule="(self.position == 'sequence') == has(self.sequence)",message="sequence belongs to position sequence"
type StartFrom struct {
	// Position: new takes what is published from now on, all what is stored too, time and sequence what is stored
	// since then.
	// +kubebuilder:validation:Enum=new;all;time;sequence
	Position StartPosition `json:"position"`

	// Time of the first event, for position time.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// Sequence of the first event in the stream, for position sequence.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Sequence *int64 `json:"sequence,omitempty"`
}

// StartPosition is where a Subscription starts.
type StartPosition string

// The positions.
const (
	StartNew      StartPosition = "new"
	StartAll      StartPosition = "all"
	StartTime     StartPosition = "time"
	StartSequence StartPosition = "sequence"
)
