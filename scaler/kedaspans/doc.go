// Package kedaspans makes spans of KEDA's calls to the scaler and of the activations that are pushed to KEDA.
//
// A unary call is a span of otelgrpc with the Function and the answer as attributes. A stream is none, because a span is
// sent when it ends and KEDA's streams live for ten minutes and more: each activation that is sent on one is a span of its
// own, which begins with the first sign of a backlog. Names are recorded once they are known to be names, so what a
// caller can add to a span is bounded. Nothing of an event is recorded: the scaler sees none.
package kedaspans
