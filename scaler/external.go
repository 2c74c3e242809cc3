package scaler

import (
	"cmp"
	"context"
	"math"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rouse-run/rouse/internal/activation"
)

// ExternalMetric returns a metric for an autoscaler in a namespace, in thousandths: one of a trigger, or activation.ReplicasMetric. labels
// have the keys and values of a trigger's metadata, function or service among them.
//
// An autoscaler knows no activity beside its metrics, so that a Function that has to stay awake has a thousandth at least, which is one
// replica at any target. As KEDA does, it gets an error where a value is not known, and keeps the replicas.
func (s *Scaler) ExternalMetric(ctx context.Context, namespace, metric string, labels map[string]string) (thousandths int64, err error) {
	name := cmp.Or(labels[keyFunction], labels[keyService])
	if name == "" {
		return 0, status.Errorf(codes.InvalidArgument, "the selector names neither a Function nor a Service: add %s or %s to its matchLabels",
			keyFunction, keyService)
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.AnswerTimeout)
	defer cancel()
	asked := &service{tracker: s.tracker, options: &s.options, metrics: s.metrics}
	ref := &pb.ScaledObjectRef{Namespace: namespace, Name: name, ScalerMetadata: labels}
	value, err := asked.measure(ctx, ref, metric)
	if err != nil {
		return 0, err
	}
	if value > 0 {
		return int64(math.Ceil(min(value*1000, math.MaxInt64/2))), nil
	}
	active, err := asked.IsActive(ctx, ref)
	if err == nil && active.GetResult() {
		thousandths = 1
	}
	return thousandths, err
}

// measure returns a metric of a trigger, or the replicas that its metrics want.
func (s *service) measure(ctx context.Context, ref *pb.ScaledObjectRef, metric string) (float64, error) {
	if metric != activation.ReplicasMetric {
		return s.value(ctx, ref, metric)
	}
	specs, err := s.GetMetricSpec(ctx, ref)
	if err != nil {
		return 0, err
	}
	replicas := 0.0
	for _, spec := range specs.GetMetricSpecs() {
		value, err := s.value(ctx, ref, spec.GetMetricName())
		if err != nil {
			return 0, err
		}
		replicas = max(replicas, value/spec.GetTargetSizeFloat())
	}
	return replicas, nil
}

func (s *service) value(ctx context.Context, ref *pb.ScaledObjectRef, metric string) (float64, error) {
	measured, err := s.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: metric})
	if err != nil {
		return 0, err
	}
	return measured.GetMetricValues()[0].GetMetricValueFloat(), nil
}

// ExternalMetricError divides the errors of ExternalMetric: those that the caller can correct, with their text, and others.
func ExternalMetricError(err error) (text string, invalid bool) {
	reported := status.Convert(err)
	return reported.Message(), reported.Code() == codes.InvalidArgument
}
