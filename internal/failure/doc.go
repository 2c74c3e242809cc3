// Package failure defines why an attempt to deliver an event failed, why an event became a dead letter, and why the
// store of events failed.
//
// A Reason is a code for programs: a label of metrics, a header and an extension of dead letters, a filter. It never
// changes. Its message is the accompanying sentence for users. Old dead letters that contain the sentence instead of
// the code are understood too.
//
// The store's errors are shared by internal/broker, which returns them, and by the ingress and the admin API, which map
// them to HTTP statuses. The package is pure.
package failure
