{{/* The read rights of the eventbridge and the scaler: Subscriptions, the endpoints of their sinks, and the pods of these. */}}
{{- define "rouse.dataPlaneRBAC" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "rouse.metadata" . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "rouse.clusterMetadata" . | nindent 2 }}
rules:
  - apiGroups: [eventing.kyma-project.io]
    resources: [subscriptions]
    verbs: [get, list, watch]
  {{- if eq .component "eventbridge" }}
  - apiGroups: [rouse.run]
    resources: [schedules{{ if eq (include "rouse.servesDoors" .root) "true" }}, doors{{ end }}]
    verbs: [get, list, watch]
  {{- end }}
  - apiGroups: [""]
    resources: [services]
    verbs: [get, list, watch]
  - apiGroups: [""]
    resources: [pods] # the owners of addresses in EndpointSlices
    verbs: [list, watch]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "rouse.clusterMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "rouse.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "rouse.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
