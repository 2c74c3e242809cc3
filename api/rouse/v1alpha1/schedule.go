package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "rouse.run", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Schedule{}, &ScheduleList{}, &Door{}, &DoorList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Schedule publishes an event whenever it is due, once, to whatever subscribes to its type.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=rouse
// +kubebuilder:printcolumn:name="Cron",type="string",JSONPath=".spec.cron"
// +kubebuilder:printcolumn:name="Every",type="string",JSONPath=".spec.every"
// +kubebuilder:printcolumn:name="At",type="string",JSONPath=".spec.at"
// +kubebuilder:printcolumn:name="Paused",type="boolean",JSONPath=".spec.paused"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="Last",type="date",JSONPath=".status.lastDue"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.nextDue[0]"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, since it becomes an attribute of each event"
type Schedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ScheduleSpec `json:"spec"`
	// +optional
	Status ScheduleStatus `json:"status,omitempty"`
}

// ScheduleList is a list of Schedules.
//
// +kubebuilder:object:root=true
type ScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Schedule `json:"items"`
}

// ScheduleSpec says when events are due, and which.
//
// +kubebuilder:validation:XValidation:rule="(has(self.cron) ? 1 : 0) + (has(self.every) ? 1 : 0) + (has(self.at) ? 1 : 0) == 1",message="set exactly one of cron, every and at"
// +kubebuilder:validation:XValidation:rule="has(self.cron) || !has(self.timeZone)",message="timeZone belongs to cron: every counts real time, and at has an offset of its own"
type ScheduleSpec struct {
	// Cron has five fields, minute, hour, day of month, month and day of week, or six with the second before them, or is
	// @hourly, @daily, @weekly, @monthly or @yearly. A time that a change of the clock leaves out is due at the change; one
	// that comes twice is due at the first.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Cron string `json:"cron,omitempty"`

	// Every is the time between two events, at least 1s, counted from startAt or else from the Schedule's creation.
	// +optional
	Every Duration `json:"every,omitempty"`

	// At is the time of a single event.
	// +optional
	At Timestamp `json:"at,omitempty"`

	// TimeZone is the IANA name of the time zone of cron, such as Europe/Berlin. The default is UTC.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// Paused stops the Schedule. What would be due meanwhile is not made up for.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// StartAt is the earliest time at which something is due.
	// +optional
	StartAt Timestamp `json:"startAt,omitempty"`

	// EndAt is the latest time at which something is due.
	// +optional
	EndAt Timestamp `json:"endAt,omitempty"`

	// Jitter delays each event by a time below this, which follows from the Schedule's UID and the due time, and by at most
	// half of the time to the next one.
	// +optional
	Jitter Duration `json:"jitter,omitempty"`

	// WakeAhead is how long before an event is due the workloads are woken that subscribe to it, so that it need not wait for
	// their start. At most 5m.
	// +optional
	WakeAhead Duration `json:"wakeAhead,omitempty"`

	// Missed is what becomes of events that could not be published when they were due, since Rouse or NATS was away.
	// +kubebuilder:default={}
	// +optional
	Missed Missed `json:"missed,omitempty"`

	// Event is what is published.
	Event ScheduledEvent `json:"event"`
}

// Duration is a time span such as 90s, 1h30m or 500ms.
//
// It is a text, as is Timestamp, so that the schema refuses whatever does not decode: one object would make the lists of all unreadable.
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,8}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:MaxLength=44
type Duration string

// Timestamp is a time by RFC 3339, such as 2027-01-01T09:00:00Z or 2027-01-01T09:00:00+01:00.
//
// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`
// +kubebuilder:validation:MaxLength=40
type Timestamp string

// MissedPolicy is what becomes of missed events.
//
// +kubebuilder:validation:Enum=One;Skip;All
type MissedPolicy string

// The policies.
const (
	// MissedOne publishes the last of them, with the number of the others in the attribute rousemissed.
	MissedOne MissedPolicy = "One"
	// MissedSkip publishes none of them.
	MissedSkip MissedPolicy = "Skip"
	// MissedAll publishes all of them, up to the limit, the oldest first.
	MissedAll MissedPolicy = "All"
)

// Missed is what becomes of missed events.
type Missed struct {
	// Policy is One (the last one, the default), Skip (none) or All (up to the limit).
	// +kubebuilder:default=One
	// +optional
	Policy MissedPolicy `json:"policy,omitempty"`

	// Limit is the number of the latest missed events that the policy All publishes.
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Limit int `json:"limit,omitempty"`

	// Deadline is how late an event may be published. The default of the policy Skip is one minute; others have none.
	// +optional
	Deadline Duration `json:"deadline,omitempty"`
}

// ScheduledEvent is the event that a Schedule publishes. In its subject, data and extensions {{name}}, {{namespace}} and
// {{due}}, the due time by RFC 3339 in UTC, are replaced. It has data or dataBase64, if any.
type ScheduledEvent struct {
	// Type of the event, as Subscriptions name it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Type string `json:"type"`

	// Source of the event, as Subscriptions name it. The default is the Schedule's namespace.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Source string `json:"source,omitempty"`

	// Subject of the event.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Subject string `json:"subject,omitempty"`

	// DataContentType of the data. The default is application/json where there are any.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	DataContentType string `json:"dataContentType,omitempty"`

	// Data is any JSON value. A string is published as it is where dataContentType is not JSON.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Data *apiextensionsv1.JSON `json:"data,omitempty"`

	// DataBase64 is data that are no JSON. Nothing is replaced in it.
	// +kubebuilder:validation:MaxLength=87384
	// +optional
	DataBase64 string `json:"dataBase64,omitempty"`

	// Extensions are further attributes: names of lower-case letters and digits, at most 20 characters each.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Extensions map[string]string `json:"extensions,omitempty"`
}

// ScheduleStatus is what has become of a Schedule. It is written once a minute at most.
type ScheduleStatus struct {
	// ObservedGeneration is the generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, and why it is not.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastDue is the due time of the last event that was published.
	// +optional
	LastDue *metav1.Time `json:"lastDue,omitempty"`

	// LastPublished is when that was stored.
	// +optional
	LastPublished *metav1.Time `json:"lastPublished,omitempty"`

	// LastID is its id.
	// +optional
	LastID string `json:"lastID,omitempty"`

	// NextDue are the next due times, three at most.
	// +optional
	NextDue []metav1.Time `json:"nextDue,omitempty"`

	// Published is the number of events that were published.
	// +optional
	Published int64 `json:"published,omitempty"`

	// Missed is the number of events that were due and that the policy left out.
	// +optional
	Missed int64 `json:"missed,omitempty"`
}

// ConditionReady is True while events are published when they are due.
const ConditionReady = "Ready"

// Reasons of ConditionReady.
const (
	// ReasonScheduled accompanies True.
	ReasonScheduled = "Scheduled"
	// ReasonPaused accompanies False: spec.paused is set.
	ReasonPaused = "Paused"
	// ReasonFinished accompanies False: nothing is due any more.
	ReasonFinished = "Finished"
	// ReasonInvalid accompanies False: the message names the field.
	ReasonInvalid = "Invalid"
	// ReasonShareExceeded accompanies False: the namespace has as many Schedules, or events a minute, as it may have.
	ReasonShareExceeded = "ShareExceeded"
	// ReasonForbidden accompanies False: the rules of publishers do not let the namespace publish the event.
	ReasonForbidden = "Forbidden"
	// ReasonUnknown accompanies Unknown: what was published last cannot be read from NATS.
	ReasonUnknown = "Unknown"
)
