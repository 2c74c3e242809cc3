{{/* "true" when uninstalling deletes the CRDs, so that the objects of their kinds must go first. */}}
{{- define "rouse.uninstallsResources" -}}
{{ and .Values.crds.enabled (not .Values.crds.keep) }}
{{- end -}}

{{/* What remains of the controller's work when it is gone, as flags of the Job that removes it. Empty: nothing. */}}
{{- define "rouse.uninstallRestArgs" -}}
{{- if (.Values.gateway | default dict).enabled }}
- --slices
{{- end }}
{{- if and .Values.crds.enabled .Values.crds.keep }}
- --finalizers
{{- end }}
{{- end -}}

{{- define "rouse.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{- define "rouse.uninstalledHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{/* When the operator's Function controllers are removed: with the release, or with the operator alone. Empty: never. Only Helm itself can
look up existing objects. */}}
{{- define "rouse.leaves" -}}
{{- if eq (include "rouse.operated" .) "true" -}}
post-delete
{{- else if lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" (include "rouse.functionRole" .) -}}
post-upgrade
{{- end -}}
{{- end -}}

{{- define "rouse.leavesHook" -}}
helm.sh/hook: {{ include "rouse.leaves" . }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
