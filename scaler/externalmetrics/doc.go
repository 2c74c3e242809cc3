// Package externalmetrics serves what Functions and workloads scale by as Kubernetes' External Metrics API
// (external.metrics.k8s.io/v1beta1), so that HorizontalPodAutoscalers scale them in a cluster without KEDA.
//
//	HPA controller --> kube-apiserver: who asks, and may he? --> this server, by an APIService --> the scaler's memory
//
// A metric is rouse-backlog or http-concurrency; the labels of its selector are the metadata of an external-push trigger of KEDA's.
//
// It guarantees:
//   - only kube-apiserver's proxy gets an answer: it identifies itself by a certificate of the authority, and by one of the names, that the
//     ConfigMap kube-system/extension-apiserver-authentication has at that moment. kube-apiserver has authorized the request by RBAC before;
//   - an answer has the namespace of the request's path, and its Subscriptions alone;
//   - a value that is not known is 503 and never 0, so that autoscalers keep the replicas.
package externalmetrics
