package v1alpha2

// ConditionType is an aspect of the state of a Subscription.
type ConditionType string

// A healthy Subscription has the first two, in this order, the third if its dead letters have a sink, and then Ready. The fourth is
// only there when it is False.
const (
	// ConditionSpecValid says whether the spec makes sense.
	ConditionSpecValid ConditionType = "Subscription spec valid"
	// ConditionActive says whether the backend carries the Subscription.
	ConditionActive ConditionType = "Subscription active"
	// ConditionDeadLetterSink says whether dead letters can go to their sink. Nothing else depends on it.
	ConditionDeadLetterSink ConditionType = "Dead letter sink active"
	// ConditionDeadLettersKept says whether dead letters were deleted before they were too old. Nothing else depends on it.
	ConditionDeadLettersKept ConditionType = "Dead letters kept"
	// ConditionReady says in one word, which tools know, whether the spec makes sense and the backend carries the Subscription.
	ConditionReady ConditionType = "Ready"
	// ConditionStalled is True when the user has to act, and is otherwise not there.
	ConditionStalled ConditionType = "Stalled"
)

// ConditionReason is why a condition has its status.
type ConditionReason string

// Reasons of the conditions.
const (
	// ReasonSpecValid goes with ConditionSpecValid=True.
	ReasonSpecValid ConditionReason = "Subscription spec has no validation errors"
	// ReasonSpecInvalid goes with ConditionSpecValid=False.
	ReasonSpecInvalid ConditionReason = "Subscription spec has validation errors"
	// ReasonActive goes with ConditionActive=True.
	ReasonActive ConditionReason = "NATS Subscription active"
	// ReasonNotActive goes with ConditionActive=False.
	ReasonNotActive ConditionReason = "NATS Subscription not active"
	// ReasonDeadLetterSink goes with ConditionDeadLetterSink=True.
	ReasonDeadLetterSink ConditionReason = "Dead letters are delivered"
	// ReasonNoDeadLetterSink goes with ConditionDeadLetterSink=False.
	ReasonNoDeadLetterSink ConditionReason = "Dead letters wait"
	// ReasonDeadLettersDropped goes with ConditionDeadLettersKept=False.
	ReasonDeadLettersDropped ConditionReason = "Oldest dead letters dropped"
	// ReasonServing goes with ConditionReady=True.
	ReasonServing ConditionReason = "Active"
	// ReasonPaused is the same of one that is paused.
	ReasonPaused ConditionReason = "Paused"
	// ReasonInvalid goes with ConditionReady=False and ConditionStalled=True: the spec has to be corrected.
	ReasonInvalid ConditionReason = "SpecInvalid"
	// ReasonSinkMissing goes with ConditionReady=False: the Service that the sink names takes no events.
	ReasonSinkMissing ConditionReason = "SinkMissing"
	// ReasonInactive goes with ConditionReady=False, and with ConditionStalled=True if NATS will never accept the consumer.
	ReasonInactive ConditionReason = "NotActive"
)
