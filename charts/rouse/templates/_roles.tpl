{{/* The rights of users, one line for each resource: group, resource, and whether it is scaled, or read-only for all. Resources that
this release does not serve are left out. */}}
{{- define "rouse.userResources" -}}
- {group: serverless.kyma-project.io, resource: functions, scaled: true}
{{- if eq (include "rouse.servesV1alpha1" .) "true" }}
- {group: serverless.kyma-project.io, resource: gitrepositories}
{{- end }}
- {group: eventing.kyma-project.io, resource: subscriptions}
- {group: rouse.run, resource: schedules}
- {group: rouse.run, resource: doors}
{{- if eq (include "rouse.servesAPIRules" .) "true" }}
- {group: gateway.kyma-project.io, resource: apirules}
{{- end }}
{{- if eq (include "rouse.operated" .) "true" }}
- {group: operator.kyma-project.io, resource: serverlesses, readOnly: true} # it affects the Functions of all namespaces
{{- end }}
{{- end -}}

{{/* The rules for reading, for the roles view and edit: Kubernetes adds up the two only where the cluster's roles are unchanged. */}}
{{- define "rouse.viewRules" -}}
{{- range include "rouse.userResources" . | fromYamlArray }}
- apiGroups: [{{ .group }}]
  resources: [{{ .resource }}]
  verbs: [get, list, watch]
- apiGroups: [{{ .group }}]
  resources: [{{ .resource }}/status{{ if .scaled }}, {{ .resource }}/scale{{ end }}]
  verbs: [get]
{{- end }}
- apiGroups: [rouse.run] # of the admin API: resources without events
  resources: [deadletters]
  verbs: [list]
- apiGroups: [rouse.run]
  resources: [events]
  verbs: [list, watch]
- apiGroups: [rouse.run]
  resources: [delayedevents]
  verbs: [list]
{{- end -}}

{{- define "rouse.editRules" -}}
{{- range include "rouse.userResources" . | fromYamlArray }}
{{- if not .readOnly }}
- apiGroups: [{{ .group }}]
  resources: [{{ .resource }}]
  verbs: [create, update, patch, delete, deletecollection]
{{- if .scaled }}
- apiGroups: [{{ .group }}]
  resources: [{{ .resource }}/scale]
  verbs: [update, patch]
{{- end }}
{{- end }}
{{- end }}
- apiGroups: [rouse.run] # of the admin API: dead letters, with their events, and actions on them
  resources: [deadletters]
  verbs: [get, delete]
- apiGroups: [rouse.run]
  resources: [deadletters/redrive, schedules/run, functions/invoke]
  verbs: [create]
- apiGroups: [rouse.run]
  resources: [delayedevents]
  verbs: [delete]
{{- end -}}
