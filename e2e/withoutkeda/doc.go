// Package withoutkeda tests Rouse in a cluster without KEDA, where HorizontalPodAutoscalers scale Functions by the scaler's external metrics.
// It takes KEDA's definition, operator and metrics from the local cluster, and puts them back.
package withoutkeda
